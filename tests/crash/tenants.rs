//! Content of LVs: what their tenants wrote must stay, and what former tenants
//! left must not be seen.

use std::sync::Arc;

use lvcsi::engine::{Engine, LvState, tags};
use lvcsi::host::sim::DiskImage;
use lvcsi_kit::{Rng, decode, text};

use crate::layouts::{MIB, PAGE, PIECE};

/// An LV whose creation was answered, and what was written to it.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    id: String,
    /// Bytes that the tenant knows of.
    size: u64,
    /// What was written where.
    pages: Arc<Vec<(u64, Vec<u8>)>>,
}

/// Where the tenant writes: the pages that may hold old content.
fn pages(size: u64) -> impl Iterator<Item = u64> {
    (0..size / PIECE).flat_map(|piece| [piece * PIECE, (piece + 1) * PIECE - PAGE])
}

fn content(rng: &mut Rng) -> Vec<u8> {
    (0..PAGE / 8)
        .flat_map(|_| rng.next_u64().to_le_bytes())
        .collect()
}

impl Tenant {
    /// Moves in: writes through the LV's device.
    pub(crate) fn new(engine: &Engine, lv: &LvState) -> Self {
        let node = lv.node.as_deref().expect("an active LV");
        let block = &engine.host().block;
        let seen = block.open_path(node).expect("the LV's device");
        let device = block.open(seen.info(), true).expect("the LV's device");
        let id = lv.id.to_string();
        let seed = id.bytes().fold(1_u64, |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        let mut rng = Rng::new(seed);
        let pages: Vec<_> = pages(lv.size.0)
            .map(|offset| (offset, content(&mut rng)))
            .collect();
        for (offset, content) in &pages {
            device.write_at(*offset, content).expect("a write");
        }
        device.flush().expect("a flush");
        Self {
            id,
            size: lv.size.0,
            pages: Arc::new(pages),
        }
    }
}

/// Reads LVs by what the decoder says about their extents.
pub(crate) struct Lvs<'a> {
    vg: &'a decode::Vg,
    /// Disk and start of the data of each PV, by its key in the text.
    pvs: Vec<(String, &'a DiskImage, u64)>,
}

impl<'a> Lvs<'a> {
    pub(crate) fn new(vg: &'a decode::Vg, pvs: &[decode::Pv], images: &'a [DiskImage]) -> Self {
        let tree = text::parse(&vg.text).expect("metadata");
        let section = tree.section(&vg.name).expect("the VG");
        let section = section.section("physical_volumes").expect("PVs");
        let find = |(key, pv): (&str, &text::Node)| {
            let id = pv.str("id").expect("id of a PV").replace('-', "");
            let number = pvs.iter().position(|pv| pv.uuid == id).expect("the PV");
            (key.to_owned(), &images[number], pvs[number].data_start)
        };
        Self {
            vg,
            pvs: section.sections().map(find).collect(),
        }
    }

    /// The disk and the offset there of a byte of an LV.
    fn place(&self, lv: &decode::Lv, offset: u64) -> (&'a DiskImage, u64) {
        let extent = self.vg.extent_size.unsigned_abs() * 512;
        let number = i64::try_from(offset / extent).expect("an extent");
        let segment = lv
            .segments
            .iter()
            .find(|segment| number >= segment.start && number - segment.start < segment.count)
            .expect("an extent of the LV");
        let [(key, first)] = segment.stripes.as_slice() else {
            panic!("{} is striped", lv.name)
        };
        let pv = self.pvs.iter().find(|pv| pv.0 == *key).expect("the PV");
        let extents = (first + number - segment.start).unsigned_abs();
        (pv.1, pv.2 + extents * extent + offset % extent)
    }

    fn is_zero(&self, lv: &decode::Lv, offset: u64) -> bool {
        let (image, at) = self.place(lv, offset);
        image.is_zero(at, PAGE)
    }

    /// Says what is wrong with the content of an LV.
    pub(crate) fn judge(&self, tenants: &[Tenant]) -> Result<(), String> {
        for lv in &self.vg.lvs {
            // Not usable yet, and known for that.
            if lv.tags.iter().any(|tag| tag == tags::INCOMPLETE) {
                continue;
            }
            let size = lv.extents().unsigned_abs() * self.vg.extent_size.unsigned_abs() * 512;
            let tenant = tenants.iter().find(|tenant| tenant.id == lv.id);
            let known = tenant.map_or(0, |tenant| tenant.size.min(size));
            for (offset, want) in tenant.iter().flat_map(|tenant| tenant.pages.iter()) {
                let (image, at) = self.place(lv, *offset);
                if image.read(at, want.len()) != *want {
                    return Err(format!("{}: content at byte {offset} is lost", lv.name));
                }
            }
            let raw = lv.tags.iter().any(|tag| tag == "lvcsi.access=block");
            // A file system shows no block that it has not written, beside
            // those at the ends, where a signature might be found.
            let end = MIB / 2;
            let shown = |offset: u64| {
                let ends = offset < end || offset + end >= size;
                offset >= known && (raw || (known == 0 && ends))
            };
            if let Some(at) = pages(size).find(|at| shown(*at) && !self.is_zero(lv, *at)) {
                return Err(format!(
                    "{}: a former tenant's content at byte {at}",
                    lv.name
                ));
            }
        }
        Ok(())
    }
}
