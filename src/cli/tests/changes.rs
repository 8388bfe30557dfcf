//! `lv create|extend|remove|rename|activate|deactivate`.

use super::{fails, machine, ok, run_answering};
use crate::host::sim::SimHost;

fn lvs(sim: &SimHost) -> Vec<(String, String, String)> {
    let out = ok(sim.host(), "lvs");
    let words =
        |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    out.lines()
        .skip(1)
        .map(words)
        .map(|w| (w[0].clone(), w[2].clone(), w[3].clone()))
        .collect()
}

fn disks(sim: &SimHost) -> Vec<Vec<u8>> {
    ["/dev/sda", "/dev/sdb"]
        .map(|path| sim.disk(path).read(0, 64 << 20))
        .into()
}

#[test]
fn an_lv_lives_and_dies() {
    let sim = machine();
    let created = ok(sim.host(), "lv create vg -n vol -L 10m");
    assert_eq!(
        created,
        "vg/vol created (12.00m), active as 253:0 at /dev/dm-0\n"
    );
    let again = ok(sim.host(), "lv create vg -n vol -L 10m");
    assert!(
        again.starts_with("vg/vol unchanged, it is as asked for (12.00m)"),
        "{again}"
    );
    let extended = ok(sim.host(), "lv extend vg/vol -L +4m");
    assert!(
        extended.starts_with("vg/vol extended (16.00m)"),
        "{extended}"
    );
    assert!(ok(sim.host(), "lv extend /dev/vg/vol -l 5").contains("(20.00m)"));
    assert!(ok(sim.host(), "lv rename vg/vol new").starts_with("vg/new renamed (20.00m)"));
    let list = sim.host().dm.list().unwrap();
    assert_eq!(
        list.iter()
            .map(|entry| entry.name.as_str())
            .collect::<Vec<_>>(),
        ["vg-new"]
    );
    assert_eq!(
        ok(sim.host(), "lv deactivate vg/new"),
        "vg/new deactivated (20.00m)\n"
    );
    assert_eq!(sim.host().dm.list().unwrap(), []);
    assert!(ok(sim.host(), "lv activate vg/new").contains("active as 253:0"));
    assert_eq!(
        lvs(&sim),
        [("new".into(), "-wi-a-----".into(), "20.00m".into())]
    );
    assert_eq!(
        ok(sim.host(), "lv remove -y vg/new"),
        "vg/new removed (20.00m)\n"
    );
    assert_eq!(lvs(&sim), []);
    assert!(fails(sim.host(), "lv remove -y vg/new", 3).contains("vg/new"));
}

#[test]
fn sizes_in_extents_percent_and_stripes() {
    let sim = machine();
    ok(
        sim.host(),
        "lv create vg -n st -L 16m --stripes 2 --stripesize 32",
    );
    let table = sim
        .host()
        .dm
        .table(sim.host().dm.list().unwrap()[0].dev, false)
        .unwrap();
    assert_eq!(
        table[0].to_string(),
        "0 32768 striped 2 64 8:0 2048 8:16 2048"
    );
    ok(sim.host(), "lv create vg -n half -l 50%free --inactive");
    assert_eq!(lvs(&sim)[0].2, "52.00m");
    ok(sim.host(), "lv extend vg/half -l +100%FREE");
    assert_eq!(lvs(&sim)[0].2, "104.00m");
    let error = fails(sim.host(), "lv create vg -n more -l 1", 6);
    assert!(error.contains("vg/more"), "{error}");
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let sim = machine();
    ok(sim.host(), "lv create vg -n vol -L 4m");
    let before = (disks(&sim), sim.host().dm.list().unwrap());
    for line in [
        "lv create vg -n other -L 4m --dry-run",
        "lv extend vg/vol -L 8m --dry-run",
        "lv rename vg/vol other --dry-run",
        "lv deactivate vg/vol --dry-run",
        "lv remove vg/vol --dry-run",
    ] {
        let plan = ok(sim.host(), line);
        assert!(plan.contains("  1. "), "{line}: {plan}");
        assert!(
            line.contains("deactivate") || plan.contains("+seqno = "),
            "{line}: {plan}"
        );
    }
    let plan = ok(sim.host(), "lv create vg -n other -L 4m --dry-run -o json");
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert!(plan["diff"].as_str().unwrap().contains("+other {"));
    assert!(!plan["steps"].as_array().unwrap().is_empty());
    let plan = ok(sim.host(), "lv extend vg/vol -L 4m --dry-run");
    assert!(
        plan.starts_with(
            "the metadata stays as it is
"
        ),
        "{plan}"
    );
    assert!(before == (disks(&sim), sim.host().dm.list().unwrap()));
}

#[test]
fn results_for_programs() {
    let sim = machine();
    let line = "lv create vg -n vol -L 4m --tag x -o json";
    let made: serde_json::Value = serde_json::from_str(&ok(sim.host(), line)).unwrap();
    assert_eq!(made["lv_name"], "vol");
    assert_eq!(made["lv_size"], 4 << 20);
    assert_eq!(made["lv_tags"][0], "x");
    assert_eq!(made["device"], "253:0");
    assert_eq!(made["changed"], true);
    let line = "lv deactivate vg/vol -o yaml";
    assert!(ok(sim.host(), line).contains("changed: true"));
}

#[test]
fn removal_asks_unless_told_not_to() {
    let sim = machine();
    ok(sim.host(), "lv create vg -n vol -L 4m");
    assert!(fails(sim.host(), "lv remove vg/vol", 5).contains("--yes"));
    let done = run_answering(sim.host(), "lv remove vg/vol", Some("no\n"));
    assert_eq!(done.status, 5);
    assert!(
        done.err
            .starts_with("Remove vg/vol (4.00m) and all that is on it? [y/n]: ")
    );
    assert_eq!(lvs(&sim).len(), 1);
    let done = run_answering(sim.host(), "lv remove vg/none", Some("y\n"));
    assert_eq!(done.status, 3, "{}", done.err);
    let done = run_answering(sim.host(), "lv remove vg/vol", Some("y\n"));
    assert_eq!((done.status, lvs(&sim).len()), (0, 0));
}

#[test]
fn a_device_in_use_is_neither_removed_nor_deactivated() {
    let sim = machine();
    ok(sim.host(), "lv create vg -n vol -L 4m");
    let user = sim.host();
    let open = user.block.open_path("/dev/vg/vol".as_ref()).unwrap();
    assert!(fails(sim.host(), "lv deactivate vg/vol", 5).contains("vg/vol is in use"));
    assert!(fails(sim.host(), "lv remove -y vg/vol", 5).contains("vg/vol is in use"));
    assert_eq!(lvs(&sim).len(), 1);
    drop(open);
    ok(sim.host(), "lv remove -y vg/vol");
}

#[test]
fn wrong_input_is_refused_and_changes_nothing() {
    let sim = machine();
    ok(sim.host(), "lv create vg -n vol -L 8m");
    ok(sim.host(), "lv create vg -n two -L 4m --inactive");
    let before = disks(&sim);
    for (line, status, says) in [
        ("lv create vg -n a -L 0", 2, "zero"),
        ("lv create vg -n a -l 0", 2, "zero"),
        ("lv create vg -n a -L 1x", 2, "1x"),
        ("lv create vg -n a -L -5", 2, "-5"),
        ("lv create vg -n a -L +5m", 2, "+5m"),
        ("lv create vg -n a -L 99999999999999e", 2, "99999999999999e"),
        ("lv create vg -n a -l 0%FREE", 2, "0%FREE"),
        ("lv create vg -n a -l 101%FREE", 2, "101%FREE"),
        ("lv create vg -n a -l 5%VG", 2, "5%VG"),
        ("lv create vg -n a", 2, "--size"),
        ("lv create vg -n a -L 4m -l 1", 2, "--extents"),
        ("lv create vg -n a/b -L 4m", 2, "a/b"),
        ("lv create vg -n .. -L 4m", 2, ".."),
        ("lv create vg -n snapshot1 -L 4m", 2, "snapshot1"),
        ("lv create v@g -n a -L 4m", 2, "v@g"),
        ("lv create vg -n a -L 4m --tag b@d", 2, "b@d"),
        ("lv create vg -n a -L 4m --stripes 0", 2, "0"),
        (
            "lv create vg -n a -L 8m --stripes 2 --stripesize 3k",
            2,
            "stripe size",
        ),
        ("lv create none -n a -L 4m", 3, "none"),
        ("lv create vg -n vol -L 4m", 4, "vg/vol"),
        ("lv create vg -n a -L 1t", 6, "vg/a"),
        ("lv extend vg/none -L 4m", 3, "vg/none"),
        ("lv extend vg -L 4m", 2, "VG/LV"),
        ("lv rename vg/vol two", 4, "vg/two"),
        ("lv rename vg/vol vol", 2, "vg/vol"),
        ("lv rename vg/vol a_tmeta", 2, "a_tmeta"),
        ("lv activate vg/none", 3, "vg/none"),
        ("lv remove -y vg/none", 3, "vg/none"),
    ] {
        let error = fails(sim.host(), line, status);
        assert!(error.contains(says), "{line}: {error}");
    }
    assert!(disks(&sim) == before);
}
