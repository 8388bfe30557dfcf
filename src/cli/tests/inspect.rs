//! `inspect`.

use super::{MIB, fails, machine, ok};
use crate::host::sim::SimHost;
use lvm2::ondisk::mda::MdaHeader;

fn json(sim: &SimHost, line: &str) -> serde_json::Value {
    serde_json::from_str(&ok(sim.host(), line)).unwrap()
}

#[test]
fn label_areas_and_texts_are_shown() {
    let sim = machine();
    ok(sim.host(), "lv create vg -n one -L 4m --inactive");
    let shown = ok(sim.host(), "inspect /dev/sda");
    for line in [
        "device           /dev/sda, 67108864 bytes in blocks of 512\n",
        "label            in sector 1\n",
        "used by a VG     yes (extension version 2)\n",
        "data area        from byte 1048576 to the end\n",
        "metadata area    1044480 bytes from byte 4096\n",
        "  largest text   521472 bytes, 0.20% in use\n",
    ] {
        assert!(shown.contains(line), "{line:?} is not in\n{shown}");
    }
    let found = json(&sim, "inspect /dev/sda -o json");
    let area = &found["metadata_areas"][0];
    let committed = &area["committed"];
    assert_eq!(committed["checksum_ok"], true);
    assert_eq!(committed["vg_name"], "vg");
    let seqno = committed["seqno"].as_u64().unwrap();
    assert!(seqno > 1);
    assert!(committed.get("text").is_none());
    // The first text is still in the ring, before the later ones.
    let first = &area["older"][0];
    assert_eq!(
        (first["offset"].as_u64(), first["seqno"].as_u64()),
        (Some(512), Some(1))
    );
    assert_eq!(first["complete"], true);
    assert_eq!(
        first["description"],
        "Write from vgcreate vg /dev/sda /dev/sdb."
    );
    let text = json(&sim, "inspect /dev/sda -o json --text");
    let text = text["metadata_areas"][0]["committed"]["text"]
        .as_str()
        .unwrap();
    assert!(text.contains("\none {\nid = \""), "{text}");
    assert!(ok(sim.host(), "inspect /dev/sda --text").contains("\none {\nid = \""));
}

#[test]
fn an_overwritten_text_is_called_so() {
    let sim = machine();
    let disk = sim.disk("/dev/sda");
    let text = disk.read(4608, 2048);
    // The start of another commit over the end of the first one.
    disk.write(4608 + 4096, &text);
    disk.write(4608 + 4096 + 512, &text);
    let found = json(&sim, "inspect /dev/sda -o json");
    let older = found["metadata_areas"][0]["older"].as_array().unwrap();
    assert_eq!(older.len(), 2);
    assert_eq!(older[0]["complete"], false);
    assert_eq!(
        (older[0]["seqno"].as_u64(), older[0]["size"].as_u64()),
        (Some(1), Some(512))
    );
    assert_eq!(older[1]["complete"], true);
}

#[test]
fn damage_is_named() {
    let sim = machine();
    let disk = sim.disk("/dev/sda");
    disk.write(4700, b"#");
    let committed = &json(&sim, "inspect /dev/sda -o json")["metadata_areas"][0]["committed"];
    assert_eq!(committed["checksum_ok"], false);
    assert!(ok(sim.host(), "inspect /dev/sda").contains("(WRONG)"));
    disk.write(4200, b"#");
    let shown = ok(sim.host(), "inspect /dev/sda");
    assert!(shown.contains("  unusable       "), "{shown}");
    disk.write(600, b"#");
    let error = fails(sim.host(), "inspect /dev/sda", 5);
    assert!(
        error.contains("/dev/sda is no PV") && error.contains("checksum"),
        "{error}"
    );
}

#[test]
fn an_orphan_and_devices_that_are_no_pv() {
    let sim = machine();
    for (path, size) in [
        ("/dev/sdc", 8 * MIB),
        ("/dev/sdd", 8 * MIB),
        ("/dev/sde", 1024),
    ] {
        sim.add_disk(path, size, 4096);
    }
    sim.add_pv("/dev/sdc").unwrap();
    let shown = ok(sim.host(), "inspect /dev/sdc");
    assert!(shown.contains("committed      none"), "{shown}");
    assert!(shown.contains("used by a VG     no"), "{shown}");
    let error = fails(sim.host(), "inspect /dev/sdd", 5);
    assert!(error.contains("no LVM2 label"), "{error}");
    assert!(fails(sim.host(), "inspect /dev/sde", 5).contains("too small"));
    assert!(fails(sim.host(), "inspect /dev/sdz", 3).contains("/dev/sdz"));
}

#[test]
fn a_text_that_wraps_is_read_in_both_parts() {
    let sim = machine();
    let disk = sim.disk("/dev/sda");
    let mut header = MdaHeader::decode(&disk.read(4096, 512), 4096).unwrap();
    let committed = header.committed.as_mut().unwrap();
    let text = disk.read(4096 + 512, usize::try_from(committed.size).unwrap());
    committed.offset = header.size - 512;
    disk.write(4096 + committed.offset, &text[..512]);
    disk.write(4096 + 512, &text[512..]);
    disk.write(4096, &header.encode());
    let area = &json(&sim, "inspect /dev/sda -o json")["metadata_areas"][0];
    let committed = &area["committed"];
    assert_eq!(
        (&committed["wraps"], &committed["checksum_ok"]),
        (&true.into(), &true.into())
    );
    assert_eq!(committed["seqno"], 1);
    assert_eq!(area["older"].as_array().unwrap().len(), 0);
    assert!(ok(sim.host(), "inspect /dev/sda").contains(", wrapping\n"));
    // The next commit goes behind it, and leaves it as an older text.
    ok(sim.host(), "lv create vg -n one -L 4m --inactive");
    let area = &json(&sim, "inspect /dev/sda -o json")["metadata_areas"][0];
    let older = area["older"].as_array().unwrap();
    let wrapped = older.iter().find(|text| text["seqno"] == 1).unwrap();
    assert_eq!(wrapped["complete"], true);
    assert_eq!(wrapped["offset"], header.size - 512);
}
