//! `pvs`, `vgs`, `lvs` and `check`.

use super::{MIB, fails, machine, ok, run};
use crate::host::Exposure;
use crate::host::sim::SimHost;
use lvm2::tables::Target;
use lvm2::units::Sectors;

fn with_lvs() -> SimHost {
    let sim = machine();
    ok(sim.host(), "lv create vg -n data -L 12m --tag a --tag b");
    ok(sim.host(), "lv create vg -n cold -l 2 --inactive");
    sim
}

#[test]
fn tables_look_like_those_of_lvm2() {
    let sim = with_lvs();
    sim.add_disk("/dev/sdc", 8 * MIB, 512);
    sim.add_pv("/dev/sdc").unwrap();
    sim.add_disk("/dev/sdd", MIB, 512);
    assert_eq!(
        ok(sim.host(), "pvs"),
        "  PV       VG Fmt  Attr  PSize  PFree\n  \
           /dev/sda vg lvm2 a--  60.00m 40.00m\n  \
           /dev/sdb vg lvm2 a--  60.00m 60.00m\n  \
           /dev/sdc    lvm2 ---   8.00m  8.00m\n"
    );
    assert_eq!(
        ok(sim.host(), "vgs --units k"),
        "  VG #PV #LV #SN Attr        VSize      VFree Meta%\n  \
           vg   2   2   0 wz--n- 122880.00k 102400.00k  0.26\n"
    );
    assert_eq!(
        ok(sim.host(), "lvs"),
        "  LV   VG Attr        LSize Pool Origin Data% Meta% Move Log Cpy%Sync Convert\n  \
           cold vg -wi-------  8.00m\n  \
           data vg -wi-a----- 12.00m\n"
    );
    let all = ok(sim.host(), "pvs -a");
    assert!(
        all.lines()
            .any(|line| line.starts_with("  /dev/sdd") && line.ends_with("smaller than 2 MiB")),
        "{all}"
    );
}

#[test]
fn json_and_yaml_have_the_keys_of_lvm2() {
    let sim = with_lvs();
    let json: serde_json::Value =
        serde_json::from_str(&ok(sim.host(), "lvs -o json --units b vg/data")).unwrap();
    let rows = json["report"][0]["lv"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["lv_name"], "data");
    assert_eq!(rows[0]["vg_name"], "vg");
    assert_eq!(rows[0]["lv_attr"], "-wi-a-----");
    assert_eq!(rows[0]["lv_size"], "12582912B");
    assert_eq!(rows[0]["lv_tags"], "a,b");
    let vgs: serde_json::Value =
        serde_json::from_str(&ok(sim.host(), "vgs -o json --units b")).unwrap();
    let vg = &vgs["report"][0]["vg"][0];
    assert_eq!(vg["vg_mda_count"], "2");
    assert_eq!(vg["vg_mda_used_count"], "2");
    assert_eq!(vg["vg_mda_size"], "1044480B");
    let free = vg["vg_mda_free"].as_str().unwrap().trim_end_matches('B');
    let free: u64 = free.parse().unwrap();
    assert!((519_000..521_472).contains(&free), "{free}");
    let yaml = ok(sim.host(), "vgs -o yaml");
    assert!(
        yaml.contains("vg_name: vg\n") && yaml.contains("lv_count: \"2\"\n"),
        "{yaml}"
    );
    let yaml_rows: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    let json: serde_json::Value = serde_json::from_str(&ok(sim.host(), "vgs -o json")).unwrap();
    assert_eq!(yaml_rows, json);
    let pvs: serde_json::Value =
        serde_json::from_str(&ok(sim.host(), "pvs -o json /dev/sdb")).unwrap();
    assert_eq!(pvs["report"][0]["pv"][0]["pv_name"], "/dev/sdb");
    let none: serde_json::Value =
        serde_json::from_str(&ok(SimHost::new().host(), "lvs -o json")).unwrap();
    assert_eq!(none["report"][0]["lv"].as_array().unwrap().len(), 0);
}

#[test]
fn names_choose_and_absent_ones_are_errors() {
    let sim = with_lvs();
    assert_eq!(ok(sim.host(), "lvs vg/cold").lines().count(), 2);
    assert_eq!(ok(sim.host(), "lvs /dev/vg/cold vg").lines().count(), 3);
    let done = run(sim.host(), "lvs vg/cold vg/none");
    assert_eq!(
        (done.status, done.out.lines().count()),
        (3, 2),
        "what there is, is shown"
    );
    assert!(done.err.contains("LV vg/none not found"), "{}", done.err);
    assert!(fails(sim.host(), "lvs other", 3).contains("VG other not found"));
    assert!(fails(sim.host(), "vgs other", 3).contains("VG other not found"));
    assert!(fails(sim.host(), "pvs /dev/sdz", 3).contains("PV /dev/sdz not found"));
    fails(sim.host(), "vgs --units x", 2);
    assert_eq!(ok(SimHost::new().host(), "pvs"), "");
}

#[test]
fn a_missing_pv_shows_in_every_report() {
    let sim = with_lvs();
    sim.detach("/dev/sda");
    let pvs = run(sim.host(), "pvs").out;
    assert!(
        pvs.lines()
            .any(|line| line.starts_with("  [unknown] vg") && line.contains(" a-m ")),
        "{pvs}"
    );
    assert!(run(sim.host(), "vgs").out.contains(" wz-pn- "));
    let lvs = run(sim.host(), "lvs").out;
    assert!(lvs.contains("-wi-----p-"), "{lvs}");
    let done = run(sim.host(), "check");
    assert_eq!(done.status, 5);
    assert!(
        done.out.contains("is missing: bring the device back"),
        "{}",
        done.out
    );
}

#[test]
fn check_compares_the_kernel_with_the_metadata() {
    let sim = with_lvs();
    assert_eq!(ok(sim.host(), "check"), "nothing found in vg\n");
    let host = sim.host();
    let dev = host.dm.list().unwrap()[0].dev;
    let wrong = Target {
        start: Sectors(0),
        len: Sectors(24576),
        kind: "linear".to_owned(),
        params: "8:16 2048".to_owned(),
    };
    host.dm.load(dev, &[wrong], false).unwrap();
    host.dm
        .resume(dev, "vg-data", Some(("vg", "data")), Exposure::Visible)
        .unwrap();
    let done = run(sim.host(), "check vg");
    assert_eq!(done.status, 5);
    assert!(
        done.out
            .contains("vg/data: the kernel maps `0 24576 linear 8:16 2048`"),
        "{}",
        done.out
    );
    let json = run(sim.host(), "check -o json").out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["findings"][0]["code"], "table-differs");
    assert_eq!(json["findings"][0]["object"], "vg/data");
    fails(sim.host(), "check none", 3);
    fails(sim.host(), "check -- -x", 2);
}

#[test]
fn a_vg_of_others_is_shown_and_its_state_explained() {
    let sim = SimHost::new();
    sim.add_vg_text(include_str!("../../../lvm2/tests/data/meta-exported.txt"))
        .unwrap();
    assert!(run(sim.host(), "vgs").out.contains(" wzx-n- "));
    assert!(run(sim.host(), "pvs").out.contains(" lvm2 ax- "));
    let done = run(sim.host(), "check -o yaml");
    assert_eq!(done.status, 5);
    assert!(
        done.out.contains("code: refused\n") && done.out.contains("vgimport"),
        "{}",
        done.out
    );
    let error = fails(sim.host(), "lv create vgt -n more -L 4m", 5);
    assert!(error.contains("vgimport"), "{error}");
}
