//! Genuine metadata is read and printed without loss; wrong text is refused
//! with its place.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod common;

use lvm2::text::{Expected, MAX_DEPTH, MAX_TEXT, Scalar, Section, TextError, Value};

fn parse(text: &str) -> Section {
    Section::parse(text.as_bytes()).unwrap()
}

fn error_of(text: impl AsRef<[u8]>) -> (usize, usize, Expected) {
    match Section::parse(text.as_ref()).unwrap_err() {
        TextError::Syntax {
            line,
            column,
            expected,
        } => (line, column, expected),
        other => panic!("{other}"),
    }
}

/// Touches every section, so that nothing prints from its source text.
fn touch(section: &mut Section) {
    let keys: Vec<String> = section.sections().map(|(key, _)| key.to_owned()).collect();
    for key in keys {
        touch(section.section_mut(&key).unwrap());
    }
}

#[test]
fn every_sample_prints_as_it_was_read() {
    let samples = common::texts();
    assert_eq!(samples.len(), 37 + 1, "a sample is missing");
    for (name, bytes) in samples {
        let text = String::from_utf8(bytes).unwrap();
        let mut tree = Section::parse(text.as_bytes()).unwrap();
        assert_eq!(tree.print(), text, "{name}");
        touch(&mut tree);
        assert_eq!(tree.print(), text, "{name}, from the tree");
    }
}

#[test]
fn the_linear_sample_reads_as_expected() {
    let bytes = std::fs::read(common::data().join("meta-linear.txt")).unwrap();
    let root = Section::parse(&bytes).unwrap();
    assert_eq!(root.items()[0].key(), "vgt");
    assert_eq!(root.int("version"), Some(1));
    assert_eq!(root.str("contents"), Some("Text Format Volume Group"));
    let vg = root.section("vgt").unwrap();
    assert_eq!(vg.int("extent_size"), Some(8192));
    assert_eq!(
        vg.strings("status"),
        Some(vec!["RESIZEABLE", "READ", "WRITE"])
    );
    assert_eq!(vg.strings("flags"), Some(vec![]));
    let pvs: Vec<&str> = vg
        .section("physical_volumes")
        .unwrap()
        .sections()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(pvs, ["pv0", "pv1", "pv2", "pv3", "pv4", "pv5"]);
    let lv = vg.section("logical_volumes").unwrap().section("lin");
    let segment = lv.unwrap().section("segment1").unwrap();
    assert_eq!(segment.areas("stripes"), Some(vec![("pv0", 0)]));
    assert_eq!(segment.get("no_such_key"), None);
    assert_eq!(segment.int("type"), None);
}

#[test]
fn values_of_all_kinds() {
    let tree = parse(
        r#"a=1 b = -5 c = +7 octal = 017 f = 1.5 s = "q\"b\\n\n" raw = 'x\"y' bare = auto
           many = [1 "two", three,4.0,] none = [ # nothing
           ] 'quoted key' = 0 a = 2"#,
    );
    assert_eq!(tree.int("a"), Some(1), "the first of two counts");
    assert_eq!(tree.int("b"), Some(-5));
    assert_eq!(tree.int("c"), Some(7));
    assert_eq!(tree.int("octal"), Some(15));
    let float = Value::Scalar(Scalar::Float("1.5".into()));
    assert_eq!(tree.get("f"), Some(&float));
    assert_eq!(tree.str("s"), Some(r#"q"b\n\n"#));
    assert_eq!(tree.str("raw"), Some(r#"x\"y"#));
    assert_eq!(tree.str("bare"), Some("auto"));
    assert_eq!(tree.int("quoted key"), Some(0));
    assert_eq!(tree.get("many").unwrap().elements().len(), 4);
    assert_eq!(tree.strings("many"), None, "not all are strings");
    assert_eq!(tree.get("none"), Some(&Value::Array(vec![])));
    let extremes = parse("a = 9223372036854775807 b = -9223372036854775808");
    assert_eq!(extremes.int("a"), Some(i64::MAX));
    assert_eq!(extremes.int("b"), Some(i64::MIN));
}

#[test]
fn areas_are_pairs() {
    assert_eq!(parse("a = [\"x\", 1, \"y\"]").areas("a"), None);
    assert_eq!(parse("a = [\"x\", -1]").areas("a"), None);
    assert_eq!(parse("a = [1, \"x\"]").areas("a"), None);
    let two = parse("a = [\"x\", 1, \"y\", 2]");
    assert_eq!(two.areas("a"), Some(vec![("x", 1), ("y", 2)]));
}

#[test]
fn a_nul_ends_the_text() {
    let tree = Section::parse(b"a = 1\n\0b = {{{\xff").unwrap();
    assert_eq!(tree.print(), "a = 1\n");
    assert_eq!(Section::parse(b"").unwrap().print(), "");
}

#[test]
fn errors_name_the_place() {
    assert_eq!(error_of("a = 1\nb"), (2, 2, Expected::EqualsOrBrace));
    assert_eq!(error_of("a = }"), (1, 5, Expected::Value));
    assert_eq!(error_of("a {\n b = 1\n"), (3, 1, Expected::Brace));
    assert_eq!(error_of("a = 1 }"), (1, 7, Expected::Key));
    assert_eq!(error_of("\n = 1"), (2, 2, Expected::Key));
    assert_eq!(error_of("ä = \"x"), (1, 5, Expected::Quote));
    assert_eq!(error_of("a = \"x\\\""), (1, 5, Expected::Quote));
    assert_eq!(error_of("a = ["), (1, 6, Expected::ElementOrBracket));
    assert_eq!(error_of("a = [[1]]"), (1, 6, Expected::ElementOrBracket));
    assert_eq!(error_of("a = [,1]"), (1, 6, Expected::ElementOrBracket));
    for number in [
        "-",
        "+",
        "09",
        "9223372036854775808",
        "-.",
        ".",
        "99999999999999999999",
    ] {
        assert_eq!(error_of(format!("a = {number}")), (1, 5, Expected::Number));
    }
    assert_eq!(error_of(b"a = 1\nb = \"\xff\""), (2, 6, Expected::Utf8));
    assert_eq!(
        Section::parse(b"a = ").unwrap_err().to_string(),
        "line 1, column 5: expected a value"
    );
}

#[test]
fn nesting_and_size_are_bounded() {
    let nested = |depth: usize| "a {".repeat(depth) + &"}".repeat(depth);
    assert!(Section::parse(nested(MAX_DEPTH).as_bytes()).is_ok());
    let (line, column, expected) = error_of(nested(1_000_000));
    assert_eq!((line, column), (1, MAX_DEPTH * 3 + 3));
    assert_eq!(expected, Expected::LessNesting);
    assert!(Section::parse(&vec![b' '; MAX_TEXT]).is_ok());
    let size = MAX_TEXT + 1;
    assert_eq!(
        Section::parse(&vec![b' '; size]).unwrap_err(),
        TextError::TooLarge {
            size,
            max: MAX_TEXT
        }
    );
}

#[test]
fn megabytes_of_hostile_text_are_refused_or_read_in_one_pass() {
    for unit in ["a=1 ", "\"", "\\", "#", "[", "a", "a=[1 ", "a{}"] {
        let text = unit.repeat((2 << 20) / unit.len());
        if let Ok(tree) = Section::parse(text.as_bytes()) {
            assert_eq!(tree.print(), text);
        }
    }
}
