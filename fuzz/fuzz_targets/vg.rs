//! Metadata of a VG that somebody broke or forged, through everything that a
//! listing or a request does with it.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use lvcsi_fuzz::mutate;
use lvm2::alloc::FreeMap;
use lvm2::check::{Identity, check, refusal};
use lvm2::crc::crc;
use lvm2::edit::{Edit, Layout, Stamp, apply, diff, seal};
use lvm2::id::LvId;
use lvm2::model::{Lv, Vg};
use lvm2::name::{LvName, Tag};
use lvm2::tables::{DevNo, plan, pv_areas, pv_ranges};
use lvm2::units::{Bytes, Extents};

fuzz_target!(|data: &[u8]| {
    let Ok(vg) = Vg::parse(data) else { return };
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    assert_eq!(vg.print().as_bytes(), text);
    let sound = check(&vg).is_empty();
    assert!(sound || refusal(&vg, &Identity::default()).is_some());
    let free = FreeMap::of(&vg);
    assert!(free.longest() <= free.free() && free.free() <= vg.extents_total());
    for lv in vg.lvs() {
        tables(&vg, lv, sound);
    }
    // One edit for each input: which one, its checksum tells.
    let choice = usize::try_from(crc(data)).unwrap_or(0);
    let index = (choice / 16).checked_rem(vg.lvs().len());
    let mut choices: Vec<Edit> = vec![create(1), create(2)];
    if let Some(lv) = index.and_then(|index| vg.lvs().get(index)) {
        choices.extend(edits(&lv.name, lv.extents()));
    }
    if let Some(edit) = choices.get(choice % choices.len()) {
        edited(&vg, edit, sound);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::text(data, size, max_size, seed)
});

/// A table covers the LV without gaps, on the extents of the PVs.
fn tables(vg: &Vg, lv: &Lv, sound: bool) {
    let device = plan(vg, lv, &|_| Some(DevNo { major: 7, minor: 0 }));
    let areas = pv_areas(vg, lv);
    let head = pv_ranges(vg, lv, Bytes(0), Bytes(4096));
    let size = vg.sectors_of(lv);
    if !sound {
        return;
    }
    let size = size.expect("a sound LV has a size");
    if let Ok(device) = device {
        let mut next = 0;
        for target in &device.table {
            assert_eq!(target.start.0, next);
            assert!(target.len.0 > 0);
            next += target.len.0;
        }
        assert_eq!(next, size.0);
    }
    for area in areas.iter().flatten() {
        let pv = vg.pv_by_id(&area.pv).expect("a PV of the VG");
        let end = pv.sector_of(pv.pe_count, vg.extent_size());
        let end = end.expect("a sound PV has an end").bytes();
        assert!(area.device_offset >= pv.pe_start.bytes());
        assert!(
            area.device_offset
                .checked_add(area.len)
                .is_some_and(|e| e <= end)
        );
    }
    if let (Ok(areas), Ok(head)) = (&areas, &head) {
        let total: u64 = areas.iter().map(|area| area.len.0).sum();
        assert_eq!(total, size.bytes().0);
        let head: u64 = head.iter().map(|range| range.len.0).sum();
        assert_eq!(head, 4096);
    }
}

fn edits(name: &LvName, extents: Extents) -> Vec<Edit> {
    let layout = Layout::default();
    let to = extents.saturating_add(Extents(1));
    let mut edits = vec![
        Edit::Extend {
            name: name.clone(),
            to,
            layout,
        },
        Edit::Remove { name: name.clone() },
        Edit::Reduce {
            name: name.clone(),
            to: Extents(1),
        },
    ];
    if let (Ok(to), Ok(tag)) = (LvName::new("renamed"), Tag::new("a=b")) {
        edits.push(Edit::Absorb {
            name: name.clone(),
            from: to.clone(),
        });
        edits.push(Edit::Rename {
            name: name.clone(),
            to,
        });
        edits.push(Edit::Tags {
            name: name.clone(),
            add: vec![tag],
            remove: Vec::new(),
        });
    }
    edits
}

fn create(stripes: u32) -> Edit {
    let layout = Layout {
        stripes: Some(stripes),
        ..Layout::default()
    };
    Edit::Create {
        name: LvName::new("new").expect("a name"),
        id: LvId::from_random([9; 32]),
        extents: Extents(3),
        tags: Vec::new(),
        layout,
        time: 1,
        host: "node-1".to_owned(),
    }
}

/// What comes out of a sound VG is sound, and its text says what the model says.
fn edited(vg: &Vg, edit: &Edit, sound: bool) {
    let Ok(changed) = apply(vg, edit) else { return };
    let _ = diff(vg, &changed);
    let stamp = Stamp {
        description: "a \"b\"\n".to_owned(),
        host: "node-1".to_owned(),
        host_system_id: None,
        time: 1_795_996_362,
        generator: "lvcsi 0.1.0".to_owned(),
        kernel: "Linux".to_owned(),
    };
    let Ok(sealed) = seal(&changed, &stamp) else {
        return;
    };
    assert_eq!(Some(sealed.seqno()), vg.seqno().checked_add(1));
    if !sound {
        return;
    }
    assert_eq!(check(&sealed), [], "{edit:?}");
    let again = Vg::parse(sealed.print().as_bytes()).expect("our own text");
    assert_eq!(format!("{:?}", again.lvs()), format!("{:?}", sealed.lvs()));
    assert_eq!(format!("{:?}", again.pvs()), format!("{:?}", sealed.pvs()));
    assert_eq!(again.seqno(), sealed.seqno());
}
