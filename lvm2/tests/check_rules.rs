//! Each rule finds what breaks it, and nothing else complains.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use lvm2::check::{Identity, Refusal, Violation, check, refusal};
use lvm2::model::{ModelError, Vg};

fn text(name: &str) -> String {
    std::fs::read_to_string(common::data().join(name)).unwrap()
}

fn changed(name: &str, from: &str, to: &str) -> Result<Vg, ModelError> {
    let text = text(name);
    assert!(text.contains(from), "{name} has no {from:?}");
    Vg::parse(text.replacen(from, to, 1).as_bytes())
}

fn violations(name: &str, from: &str, to: &str) -> Vec<Violation> {
    check(&changed(name, from, to).unwrap())
}

fn rules(name: &str, from: &str, to: &str) -> Vec<&'static str> {
    let mut rules: Vec<_> = violations(name, from, to).iter().map(|v| v.rule).collect();
    rules.dedup();
    rules
}

const TWO: &str = "meta-linear_2seg.txt";
const STRIPED: &str = "meta-striped.txt";
const NAMES: &str = "meta-names.txt";

#[test]
fn each_rule_finds_what_breaks_it() {
    let cases = [
        (TWO, "seqno = 5", "seqno = 0", "seqno"),
        (TWO, "\"RESIZEABLE\"", "\"RESIZABLE\"", "status-words"),
        (
            TWO,
            "\"VISIBLE\"]",
            "\"VISIBLE\", \"BROKEN\"]",
            "status-words",
        ),
        (TWO, "\"ALLOCATABLE\"", "\"FULL\"", "status-words"),
        (
            TWO,
            "id = \"qJnyc7-uUA3-8Wv9-vVgB-XEUR-JtQ4-bv7AZ3\"",
            "id = \"1Ic9xQ-Q2Xf-3GU3-yg2c-Lmoc-YfgP-IP5YT8\"",
            "pv-unique",
        ),
        (TWO, "dev_size = 1048576", "dev_size = 1000000", "pv-size"),
        (
            TWO,
            "pe_start = 2048",
            "pe_start = 9223372036854775807",
            "pv-size",
        ),
        (
            TWO,
            "id = \"dacE7T-67RE-lJWF-xb5w-FsUQ-oPlV-NIe82q\"",
            "id = \"JtpfXs-IdUN-Fl5v-LDc5-vscv-qOTn-kgOzPX\"",
            "lv-unique",
        ),
        (TWO, "pad {", "lin {", "lv-unique"),
        (
            TWO,
            "creation_host = \"uml1\"\nsegment_count = 1",
            "segment_count = 1",
            "creation",
        ),
        (TWO, "creation_time = 1795994512\n", "", "creation"),
        (
            TWO,
            "segment_count = 3",
            "segment_count = 2",
            "segment-count",
        ),
        (TWO, "start_extent = 3", "start_extent = 4", "segment-order"),
        (STRIPED, "extent_count = 12", "extent_count = 13", "stripes"),
        (STRIPED, "stripe_size = 128\n", "", "stripes"),
        (STRIPED, "stripe_size = 128", "stripe_size = 100", "stripes"),
        (
            STRIPED,
            "stripe_size = 128",
            "stripe_size = 16384",
            "stripes",
        ),
        (TWO, "\"pv1\", 0", "\"pv9\", 0", "areas-exist"),
        (TWO, "\"pv1\", 0", "\"pv1\", 124", "extents-in-pv"),
        (TWO, "\"pv1\", 0", "\"pv0\", 8", "extents-once"),
        (TWO, "\"pv0\", 3", "\"pv0\", 4", "extents-once"),
        (TWO, "vgt {", "# first\nvgt {", "text-layout"),
        (TWO, "vgt {", "x=[]vgt {", "text-layout"),
        (TWO, "}\n# Generated", "} # Generated", "text-layout"),
        (
            TWO,
            "\n\n}\n# Generated",
            "\n }\n# Generated",
            "text-layout",
        ),
        (
            TWO,
            "description = \"Write",
            "description = \"\n}\nWrite",
            "text-layout",
        ),
        (TWO, "extent_size = 8192\n", "", "missing"),
    ];
    for (name, from, to, rule) in cases {
        if rule == "missing" {
            let error = changed(name, from, to).unwrap_err();
            assert!(matches!(&error, ModelError::Missing { key, .. } if key == "extent_size"));
            assert_eq!(error.to_string(), "VG vgt: extent_size is missing");
            continue;
        }
        assert_eq!(rules(name, from, to), [rule], "{from:?} -> {to:?}");
    }
}

#[test]
fn keys_behind_the_pvs_are_not_seen_by_lvm2s_shortcut() {
    let moved = text(TWO).replacen("extent_size = 8192\n", "", 1).replacen(
        "\nlogical_volumes {",
        "\nextent_size = 8192\nlogical_volumes {",
        1,
    );
    let found = check(&Vg::parse(moved.as_bytes()).unwrap());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].detail.contains("extent_size"), "{found:?}");
}

#[test]
fn an_overlap_names_both_lvs_and_the_extents() {
    let found = violations(TWO, "\"pv0\", 3", "\"pv0\", 4");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].detail, "extents 5 to 5 belong to pad and lin");
    assert!(found[0].object.contains("pv0"), "{:?}", found[0]);
}

#[test]
fn a_violation_names_its_object() {
    for (from, to, object) in [
        ("seqno = 5", "seqno = 0", "VG vgt"),
        ("start_extent = 3", "start_extent = 4", "LV vgt/lin"),
        (
            "dev_size = 1048576",
            "dev_size = 1000000",
            "PV 1Ic9xQ-Q2Xf-3GU3-yg2c-Lmoc-YfgP-IP5YT8 (pv0) of VG vgt",
        ),
    ] {
        let found = violations(TWO, from, to);
        assert_eq!(found[0].object, object);
        assert!(found[0].to_string().starts_with(&format!("{object}: ")));
    }
}

#[test]
fn a_long_run_hides_no_overlap_behind_a_short_one() {
    // lin's first segment now covers everything that pad and its second have.
    let found = violations(TWO, "extent_count = 3", "extent_count = 20");
    let once = found.iter().filter(|v| v.rule == "extents-once").count();
    assert_eq!(once, 2, "{found:?}");
}

#[test]
fn an_lv_has_no_more_extents_than_lvm2_counts() {
    let first = "extent_count = 4294967295\n\ntype = \"zero\"\n}\n";
    let one_more =
        "segment2 {\nstart_extent = 4294967295\nextent_count = 1\n\ntype = \"zero\"\n}\n";
    let sized = |segments: &str| {
        let text = text("meta-error_zero.txt");
        let (before, zero) = text.split_once("ze {").unwrap();
        let zero = zero.replacen("extent_count = 3\n\ntype = \"zero\"\n}\n", segments, 1);
        let vg = Vg::parse(format!("{before}ze {{{zero}").as_bytes()).unwrap();
        let found = check(&vg);
        found.iter().filter(|v| v.rule == "segment-order").count()
    };
    assert_eq!(sized(first), 0);
    assert_eq!(sized(&format!("{first}{one_more}")), 1);
    // Two above the limit are as wrong as one.
    let two_more = one_more.replace("extent_count = 1", "extent_count = 2");
    assert_eq!(sized(&format!("{first}{two_more}")), 1);
}

#[test]
fn names_must_fit_into_a_dm_name() {
    let long = "l-".repeat(50);
    assert_eq!(rules(TWO, "pad {", &format!("{long} {{")), ["name-length"]);
}

#[test]
fn historical_names_are_taken() {
    assert_eq!(rules("meta-history.txt", "th3 {", "th2 {"), ["lv-unique"]);
}

#[test]
fn wrong_types_are_told_with_their_place() {
    let error = |from: &str, to: &str| changed(TWO, from, to).unwrap_err().to_string();
    assert_eq!(
        error("seqno = 5", "seqno = \"5\""),
        "VG vgt: seqno is not a number of 32 bits"
    );
    assert_eq!(
        error("pe_count = 127", "pe_count = -1"),
        "VG vgt, PV pv0: pe_count is not a number of 32 bits"
    );
    assert_eq!(
        error("extent_count = 4", "extent_count = 4294967296"),
        "LV vgt/lin, segment2: extent_count is not a number of 32 bits"
    );
    assert!(error("\"pv0\", 0\n", "\"pv0\"\n").starts_with("LV vgt/lin, segment1: stripes is not"));
    assert!(error("stripe_count = 1", "stripe_count = 2").contains("stripe_count"));
    assert!(error("version = 1", "version = 2").contains("version = 2"));
    assert!(error("id = \"JtpfXs-", "id = \"").starts_with("LV vgt/lin: identifier"));
    assert!(error("extent_size = 8192", "extent_size = 8193").starts_with("VG vgt: "));
    assert!(matches!(
        Vg::parse(b"contents = \"x\""),
        Err(ModelError::NoVg)
    ));
    assert!(matches!(Vg::parse(b"vgt {"), Err(ModelError::Text(_))));
    let twice = format!("{}\nother {{\n}}\n", text(TWO));
    assert!(matches!(
        Vg::parse(twice.as_bytes()),
        Err(ModelError::SeveralVgs { .. })
    ));
}

#[test]
fn what_cannot_be_written_is_refused_for_the_best_reason() {
    let reason = |name: &str, from: &str, to: &str| {
        refusal(&changed(name, from, to).unwrap(), &Identity::default())
    };
    assert!(matches!(
        reason(TWO, "\"READ\", \"WRITE\"]", "\"READ\"]"),
        Some(Refusal::ReadOnly { .. })
    ));
    assert!(matches!(
        reason(TWO, "\"RESIZEABLE\"", "\"RESIZEABLE\", \"CLUSTERED\""),
        Some(Refusal::Clustered { .. })
    ));
    assert!(matches!(
        reason(TWO, "\"VISIBLE\"]", "\"VISIBLE\", \"NEW\"]"),
        Some(Refusal::UnknownStatus { word, .. }) if word == "NEW"
    ));
    assert!(matches!(
        reason("meta-raid0.txt", "type = \"raid0\"", "type = \"raid99\""),
        Some(Refusal::UnknownSegment { type_name, .. }) if type_name == "raid99"
    ));
    assert!(matches!(
        reason("meta-cache.txt", "+METADATA_FORMAT", "+METADATA_FORMAT+NEW"),
        Some(Refusal::UnknownSegment { .. })
    ));
    assert!(matches!(
        reason(NAMES, "\"pv0\", 3", "\"pv0\", 2"),
        Some(Refusal::Broken { violation, .. }) if violation.rule == "extents-once"
    ));
    assert_eq!(reason(NAMES, "\"t1\"", "\"t2\""), None);
}
