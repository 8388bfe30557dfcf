//! Short texts: sizes, names, tags, identifiers, device numbers, dm names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lvcsi_fuzz::units::Units;
use lvm2::id::LvId;
use lvm2::name::{LvName, MAX_NAME, Tag, VgName, check_pair, dm_name, split_dm_name};
use lvm2::tables::DevNo;
use lvm2::text::Section;
use lvm2::units::{Bytes, format_size, parse_size};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    size(&text);
    let (first, second) = text.split_once('/').unwrap_or((&text, "lv"));
    names(first, second);
    if let Some((vg, lv, layer)) = split_dm_name(&text) {
        let _ = dm_name(&vg, &lv, layer.as_deref());
    }
    if let Ok(id) = LvId::parse(&text) {
        assert_eq!(LvId::parse(&id.to_string()), Ok(id));
        assert_eq!(LvId::parse(id.as_str()), Ok(id));
    }
    if let Ok(number) = text.parse::<DevNo>() {
        assert_eq!(number.to_string().parse(), Ok(number));
    }
    quoted(&text);
});

fn size(text: &str) {
    let Ok(size) = parse_size(text) else { return };
    assert_eq!(parse_size(&format!("{}b", size.0)), Ok(size));
    // What is shown is read again within the rounding of two digits.
    let shown = parse_size(&format_size(size)).map_or(u64::MAX, |Bytes(n)| n);
    assert!(
        shown.abs_diff(size.0) <= size.0 / 100 + 1,
        "{size:?} as {shown}"
    );
    for units in ["r", "h", "b", "s", "k", "m", "g", "t", "p", "e"] {
        let units: Units = units.parse().expect("these units exist");
        assert!(!units.show(size).is_empty());
    }
}

fn names(vg: &str, lv: &str) {
    let (Ok(vg), Ok(lv)) = (VgName::new(vg), LvName::new(lv)) else {
        return;
    };
    let _ = lv.check_new();
    let dm = dm_name(vg.as_str(), lv.as_str(), None);
    if check_pair(&vg, &lv).is_ok() {
        assert!(dm.len() <= MAX_NAME);
    }
    let parts = Some((vg.to_string(), lv.to_string(), None));
    assert_eq!(split_dm_name(&dm), parts);
    let layer = split_dm_name(&dm_name(vg.as_str(), lv.as_str(), Some("real")));
    assert_eq!(
        layer.and_then(|(_, _, layer)| layer).as_deref(),
        Some("real")
    );
}

/// Whatever is written as a string is read back.
fn quoted(text: &str) {
    if let Ok(tag) = Tag::new(text) {
        assert!(!tag.as_str().contains(['"', '\\']));
    }
    let mut tree = Section::new();
    if tree.set_str("key", text).is_ok() && tree.set_strings("list", &[text, ""]).is_ok() {
        let again = Section::parse(tree.print().as_bytes()).expect("our own text");
        assert_eq!(again.str("key"), Some(text));
        assert_eq!(again.strings("list"), Some(vec![text, ""]));
    }
}
