//! From the tree to what it says.

use std::collections::HashSet;
use std::sync::Arc;

use crate::name::{LvName, VgName};
use crate::text::{Section, Value};
use crate::units::{ExtentSize, Extents, Sectors};

use super::error::{ModelError, Object};
use super::read::Keys;
use super::segment::{AreaRef, OtherArea, Segment, SegmentKind, Stripe, is_known_type};
use super::{Header, Lv, Pv, Vg};

/// What `contents` must say.
const CONTENTS: &str = "Text Format Volume Group";

/// Keys of foreign segments whose strings are names of LVs. In types that we
/// do not know every string counts, lest an LV in use be taken for a free one.
const LV_KEYS: &[&str] = &[
    "origin",
    "cow_store",
    "merging_store",
    "metadata",
    "pool",
    "thin_pool",
    "external_origin",
    "merge",
    "mirror_log",
    "data",
    "cache_pool",
    "writecache",
    "meta_dev",
    "vdo_pool",
    "create",
];

/// Whether a name is that of a PV section.
pub(crate) type IsPv<'a> = &'a dyn Fn(&str) -> bool;

pub(super) fn vg(tree: Section) -> Result<Vg, ModelError> {
    let mut sections = tree.sections();
    let (name, section) = sections.next().ok_or(ModelError::NoVg)?;
    if let Some((second, _)) = sections.next() {
        return Err(ModelError::SeveralVgs {
            first: name.to_owned(),
            second: second.to_owned(),
        });
    }
    let (name, section) = (name.to_owned(), Arc::clone(section));
    let name = name.as_str();
    drop(sections);
    let header = header(&tree, name, &section)?;
    let pvs = pvs(name, &section)?;
    let keys: HashSet<&str> = pvs.iter().map(|pv| pv.key.as_str()).collect();
    let mut lvs = Vec::new();
    for (lv_name, section) in section
        .section("logical_volumes")
        .into_iter()
        .flat_map(|section| section.sections())
    {
        lvs.push(Arc::new(lv(name, lv_name, section, &|key| {
            keys.contains(key)
        })?));
    }
    drop(keys);
    Ok(Vg {
        header: Arc::new(header),
        pvs: Arc::new(pvs),
        lvs: Arc::new(lvs),
        tree,
    })
}

/// Reads everything but the PVs and LVs.
pub(crate) fn header(tree: &Section, name: &str, vg: &Section) -> Result<Header, ModelError> {
    let file = Keys::new(tree, || Object::File);
    let contents = file.text("contents")?;
    if contents != CONTENTS {
        let found = contents.to_owned();
        return Err(ModelError::Format {
            key: "contents",
            found,
            expected: CONTENTS,
        });
    }
    let version = file.int("version")?;
    if version != 1 {
        let found = version.to_string();
        return Err(ModelError::Format {
            key: "version",
            found,
            expected: "1",
        });
    }
    let object = || Object::Vg {
        vg: name.to_owned(),
    };
    let keys = Keys::new(vg, object);
    let historical = vg.section("historical_logical_volumes");
    Ok(Header {
        name: VgName::new(name).map_err(|source| ModelError::Name {
            object: Box::new(Object::File),
            source,
        })?,
        id: keys.id("id")?,
        seqno: keys.u32("seqno")?,
        extent_size: ExtentSize::new(Sectors(keys.unsigned("extent_size")?)).map_err(|source| {
            ModelError::ExtentSize {
                object: Box::new(object()),
                source,
            }
        })?,
        status: keys.words("status")?,
        flags: keys.words_or_none("flags")?,
        tags: keys.words_or_none("tags")?,
        system_id: keys.optional_text("system_id")?,
        lock_type: keys.optional_text("lock_type")?,
        allocation_policy: keys.optional_text("allocation_policy")?,
        max_lv: keys.optional_unsigned("max_lv")?.unwrap_or(0),
        max_pv: keys.optional_unsigned("max_pv")?.unwrap_or(0),
        historical: historical
            .into_iter()
            .flat_map(|section| section.sections())
            .map(|(name, _)| name.to_owned())
            .collect(),
        description: file.optional_text("description")?,
        creation_host: file.optional_text("creation_host")?,
        creation_time: file.optional_int("creation_time")?,
    })
}

/// Reads the PVs of a VG's section.
pub(crate) fn pvs(name: &str, vg: &Section) -> Result<Vec<Arc<Pv>>, ModelError> {
    vg.section("physical_volumes")
        .into_iter()
        .flat_map(|section| section.sections())
        .map(|(key, section)| pv(name, key, section).map(Arc::new))
        .collect()
}

fn pv(vg: &str, key: &str, section: &Section) -> Result<Pv, ModelError> {
    let keys = Keys::new(section, || Object::Pv {
        vg: vg.to_owned(),
        key: key.to_owned(),
    });
    let status = keys.words("status")?;
    let flags = keys.words_or_none("flags")?;
    let has = |words: &[String], word: &str| words.iter().any(|w| w == word);
    Ok(Pv {
        key: key.to_owned(),
        id: keys.id("id")?,
        device_hint: keys.optional_text("device")?.unwrap_or_default(),
        dev_size: keys.optional_unsigned("dev_size")?.map(Sectors),
        pe_start: Sectors(keys.unsigned("pe_start")?),
        pe_count: Extents(u64::from(keys.u32("pe_count")?)),
        allocatable: has(&status, "ALLOCATABLE"),
        // Old releases wrote it as a status.
        missing: has(&flags, "MISSING") || has(&status, "MISSING"),
        exported: has(&status, "EXPORTED"),
        tags: keys.words_or_none("tags")?,
        status,
        flags,
    })
}

/// Reads one LV's section.
pub(crate) fn lv(
    vg: &str,
    name: &str,
    section: &Section,
    is_pv: IsPv<'_>,
) -> Result<Lv, ModelError> {
    let object = || Object::Lv {
        vg: vg.to_owned(),
        lv: name.to_owned(),
    };
    let keys = Keys::new(section, object);
    let mut segments = Vec::new();
    for (key, section) in section.sections().filter(|(key, _)| is_segment(key)) {
        segments.push(segment(vg, name, key, section, is_pv)?);
    }
    Ok(Lv {
        name: LvName::new(name).map_err(|source| ModelError::Name {
            object: Box::new(Object::Vg { vg: vg.to_owned() }),
            source,
        })?,
        id: keys.id("id")?,
        status: keys.words("status")?,
        flags: keys.words_or_none("flags")?,
        tags: keys.words_or_none("tags")?,
        creation_time: keys.optional_int("creation_time")?,
        creation_host: keys.optional_text("creation_host")?,
        read_ahead: keys.optional_int("read_ahead")?,
        major: keys.optional_int("major")?,
        minor: keys.optional_int("minor")?,
        allocation_policy: keys.optional_text("allocation_policy")?,
        segment_count: keys.int("segment_count")?,
        segments,
    })
}

/// Whether a section of an LV is a segment.
pub(crate) fn is_segment(key: &str) -> bool {
    key.strip_prefix("segment")
        .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

fn segment(
    vg: &str,
    lv: &str,
    key: &str,
    section: &Section,
    is_pv: IsPv<'_>,
) -> Result<Segment, ModelError> {
    let keys = Keys::new(section, || Object::Segment {
        vg: vg.to_owned(),
        lv: lv.to_owned(),
        segment: key.to_owned(),
    });
    let type_name = keys.text("type")?;
    let count = Extents(u64::from(keys.u32("extent_count")?));
    let kind = match type_name {
        "striped" | "linear" => {
            let stripes = stripes(&keys, is_pv)?;
            let stripe_size = keys.optional_unsigned("stripe_size")?.map(Sectors);
            let declared = keys.optional_unsigned("stripe_count")?;
            if declared.is_some_and(|declared| declared != stripes.len() as u64) {
                return Err(keys.wrong("stripe_count", "the number of areas in stripes"));
            }
            SegmentKind::Striped {
                stripe_size,
                stripes,
            }
        }
        _ => other(type_name, section, count, is_pv),
    };
    Ok(Segment {
        start: Extents(u64::from(keys.u32("start_extent")?)),
        count,
        kind,
        tags: keys.words_or_none("tags")?,
    })
}

fn stripes<F: Fn() -> Object>(
    keys: &Keys<'_, F>,
    is_pv: IsPv<'_>,
) -> Result<Vec<Stripe>, ModelError> {
    let wrong = || keys.wrong("stripes", "a list of names and extent numbers in turn");
    let (pairs, rest) = keys.elements("stripes")?.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    let mut stripes = Vec::with_capacity(pairs.len());
    for [name, extent] in pairs {
        let extent = extent
            .as_int()
            .and_then(|extent| u32::try_from(extent).ok());
        let (Some(name), Some(extent)) = (name.as_str(), extent) else {
            return Err(wrong());
        };
        let (name, extent) = (name.to_owned(), Extents(u64::from(extent)));
        let area = if is_pv(&name) {
            AreaRef::Pv(name, extent)
        } else {
            AreaRef::Lv(name, extent)
        };
        stripes.push(Stripe { area });
    }
    Ok(stripes)
}

/// Collects what a segment of another type uses, wherever its text says it.
fn other(type_name: &str, section: &Section, count: Extents, is_pv: IsPv<'_>) -> SegmentKind {
    let mut found = Found {
        areas: Vec::new(),
        refers: Vec::new(),
    };
    collect(section, count, is_pv, !is_known_type(type_name), &mut found);
    SegmentKind::Other {
        type_name: type_name.to_owned(),
        areas: found.areas,
        refers: found.refers,
    }
}

struct Found {
    areas: Vec<OtherArea>,
    refers: Vec<String>,
}

fn collect(section: &Section, count: Extents, is_pv: IsPv<'_>, all: bool, found: &mut Found) {
    for item in section.items() {
        if let Some(inner) = item.section() {
            collect(inner, count, is_pv, all, found);
        }
        let Some(value) = item
            .value()
            .filter(|_| !matches!(item.key(), "type" | "tags"))
        else {
            continue;
        };
        let list = matches!(value, Value::Array(_));
        let mut rest = value.elements().iter().peekable();
        while let Some(scalar) = rest.next() {
            let Some(name) = scalar.as_str() else {
                continue;
            };
            let extent = rest
                .peek()
                .and_then(|next| u64::try_from(next.as_int()?).ok());
            match extent {
                Some(start) if list && is_pv(name) => found.areas.push(OtherArea {
                    key: name.to_owned(),
                    start: Extents(start),
                    count,
                }),
                _ if list || all || LV_KEYS.contains(&item.key()) => {
                    found.refers.push(name.to_owned());
                }
                _ => {}
            }
        }
    }
}
