//! Random texts and random edits.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use lvm2::text::{New, Section};
use proptest::prelude::*;

fn blank() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(" ".to_owned()),
        Just("\n".to_owned()),
        Just("\t# \"}{ü\n".to_owned()),
        Just("\n\n# line\r\n\x0b ".to_owned()),
    ]
}

fn optional_blank() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(String::new()), 1 => blank()]
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        "0[0-7]{1,5}|[+-]?[0-9]{1,6}[.][0-9]{0,3}",
        "\"([^\"\\\\\0]|\\\\[^\0])*\"",
        "'[^'\0]*'",
        "[A-Za-z_][A-Za-z0-9_.-]{0,8}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    let comma = prop_oneof![Just(","), Just(" "), Just(" ,\n")];
    let array = prop::collection::vec((scalar(), comma, blank()), 0..5).prop_map(|parts| {
        let inner: String = parts
            .into_iter()
            .map(|(s, comma, blank)| format!("{s}{comma}{blank}"))
            .collect();
        format!("[{inner}]")
    });
    prop_oneof![3 => scalar(), 1 => array]
}

fn items() -> impl Strategy<Value = String> {
    let leaf = (
        "[a-z][a-z0-9.+-]{0,3}|\"[^\"\\\\\0]*\"",
        optional_blank(),
        optional_blank(),
        value(),
    )
        .prop_map(|(key, a, b, value)| format!("{key}{a}={b}{value}"));
    let leaves = prop::collection::vec((blank(), leaf), 0..6);
    let join = |parts: Vec<(String, String)>| -> String {
        parts.into_iter().map(|(a, b)| a + &b).collect()
    };
    leaves
        .prop_map(join)
        .prop_recursive(4, 64, 4, move |inner| {
            let section = (
                "[a-z][a-z0-9]{0,3}",
                optional_blank(),
                inner.clone(),
                optional_blank(),
            )
                .prop_map(|(key, a, body, b)| format!("{key}{a}{{{body}{b}}}"));
            (inner, prop::collection::vec((blank(), section), 0..4))
                .prop_map(move |(first, parts)| first + &join(parts))
        })
}

/// All values, by path, in order.
fn flatten(section: &Section, path: &str, out: &mut Vec<(String, String)>) {
    for item in section.items() {
        let path = format!("{path}/{}", item.key());
        match item.section() {
            Some(inner) => {
                out.push((path.clone(), "section".into()));
                flatten(inner, &path, out);
            }
            None => out.push((path, format!("{:?}", item.value()))),
        }
    }
}

fn flat(section: &Section) -> Vec<(String, String)> {
    let mut out = Vec::new();
    flatten(section, "", &mut out);
    out
}

/// One edit. Its outcome is predicted on the list of items, without looking at
/// their text.
#[derive(Clone, Debug)]
enum Change {
    Set(prop::sample::Index, i64),
    Push(String),
    InsertAfter(prop::sample::Index, String),
    InsertBefore(prop::sample::Index, String),
    Remove(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), any::<i64>()).prop_map(|(i, n)| Change::Set(i, n)),
        "N[0-9]{3}".prop_map(Change::Push),
        (at(), "N[0-9]{3}").prop_map(|(i, k)| Change::InsertAfter(i, k)),
        (at(), "N[0-9]{3}").prop_map(|(i, k)| Change::InsertBefore(i, k)),
        at().prop_map(Change::Remove),
    ]
}

proptest! {
    #[test]
    fn any_bytes_parse_and_print_or_are_refused(bytes: Vec<u8>) {
        if let Ok(tree) = Section::parse(&bytes) {
            let text = bytes.split(|b| *b == 0).next().unwrap();
            let printed = tree.print();
            prop_assert_eq!(printed.as_bytes(), text);
        }
    }

    #[test]
    fn texts_of_grammar_characters_never_panic(text in "[a1=\\[\\]{}\"'\\\\,#\n .+-]{0,60}") {
        if let Ok(tree) = Section::parse(text.as_bytes()) {
            prop_assert_eq!(tree.print(), text);
        }
    }

    #[test]
    fn texts_of_the_grammar_parse_and_print(text in items(), tail in optional_blank()) {
        let text = text + &tail;
        let tree = Section::parse(text.as_bytes());
        prop_assert!(tree.is_ok(), "{:?} {:?}", text, tree);
        prop_assert_eq!(tree.unwrap().print(), text);
    }

    #[test]
    fn edits_change_the_touched_item_only(
        text in items(),
        tail in optional_blank(),
        inside: bool,
        changes in prop::collection::vec(change(), 1..5),
    ) {
        let text = if inside { format!("top{{{text}{tail}}}") } else { text + &tail };
        let mut tree = Section::parse(text.as_bytes()).unwrap();
        for change in changes {
            let target = if inside { tree.section_mut("top").unwrap() } else { &mut tree };
            let mut expected: Vec<Vec<(String, String)>> = target
                .items()
                .iter()
                .map(|item| {
                    let mut text = String::new();
                    item.print_into(&mut text);
                    flat(&Section::parse(text.as_bytes()).unwrap())
                })
                .collect();
            let keys: Vec<String> = target.keys().map(str::to_owned).collect();
            let first_of = |index: &prop::sample::Index| {
                let key = &keys[index.index(keys.len())];
                (keys.iter().position(|k| k == key).unwrap(), key.clone())
            };
            let new = |key: &str, n: i64| {
                vec![(format!("/{key}"), format!("Some(Scalar(Int({n})))"))]
            };
            let free = |key: &String| !keys.contains(key);
            match change {
                Change::Push(key) if free(&key) => {
                    target.push(&key, New::Int(5)).unwrap();
                    expected.push(new(&key, 5));
                }
                _ if keys.is_empty() => {}
                Change::Set(index, n) => {
                    let (at, key) = first_of(&index);
                    if target.set_int(&key, n).is_ok() {
                        expected[at] = new(&key, n);
                    }
                }
                Change::InsertAfter(index, key) if free(&key) => {
                    let (at, anchor) = first_of(&index);
                    target.insert_after(&anchor, &key, New::Int(6)).unwrap();
                    expected.insert(at + 1, new(&key, 6));
                }
                Change::InsertBefore(index, key) if free(&key) => {
                    let (at, anchor) = first_of(&index);
                    target.insert_before(&anchor, &key, New::Int(7)).unwrap();
                    expected.insert(at, new(&key, 7));
                }
                Change::Remove(index) => {
                    let (at, key) = first_of(&index);
                    target.remove(&key).unwrap();
                    expected.remove(at);
                }
                _ => {}
            }
            let printed = target.print();
            let again = Section::parse(printed.as_bytes());
            prop_assert!(again.is_ok(), "{:?} {:?}", printed, again);
            prop_assert_eq!(flat(&again.unwrap()), expected.concat(), "{:?}", printed);
            // What was read again and what is in memory are the same tree.
            let whole = Section::parse(tree.print().as_bytes()).unwrap();
            prop_assert_eq!(flat(&whole), flat(&tree));
        }
    }
}
