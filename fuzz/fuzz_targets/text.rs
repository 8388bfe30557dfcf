//! The metadata language: what is read prints the same, and an edit changes
//! what it names and nothing else.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use lvcsi_fuzz::mutate;
use lvm2::crc::crc;
use lvm2::text::{New, Section};

fuzz_target!(|data: &[u8]| {
    let Ok(tree) = Section::parse(data) else {
        return;
    };
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    assert_eq!(tree.print().as_bytes(), text);
    let choice = crc(data);
    // Of several things of one name the first counts.
    let mut keys = tree.sections().map(|(key, _)| key);
    let key = keys.find(|key| tree.section(key).is_some());
    let key = key.map(str::to_owned);
    let inside = key.filter(|_| choice & 1 == 0);
    edit(&tree, inside.as_deref(), choice >> 1);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::text(data, size, max_size, seed)
});

/// Edits a copy, at the top or in a section, in which the closing brace is a
/// neighbour: the text parses, and says what the copy says.
fn edit(tree: &Section, inside: Option<&str>, choice: u32) {
    let mut copy = tree.clone();
    let place = match inside {
        Some(key) => copy.section_mut(key).expect("a section that is there"),
        None => &mut copy,
    };
    let touched = change(place, choice);
    let (before, after) = (flat(tree), flat(&copy));
    let text = copy.print();
    let again = Section::parse(text.as_bytes()).expect("an edited text parses");
    assert_eq!(flat(&again), after, "{text:?}");
    let Some(key) = touched else {
        assert_eq!(after, before, "a refused edit changes nothing");
        return;
    };
    let prefix = inside.map_or_else(String::new, |inside| format!("/{inside}"));
    let (item, below) = (format!("{prefix}/{key}"), format!("{prefix}/{key}/"));
    let new = format!("{prefix}/new");
    let other = |list: Vec<(String, String)>| -> Vec<(String, String)> {
        let mine = |path: &str| path == item || path.starts_with(&below) || path == new;
        list.into_iter().filter(|(path, _)| !mine(path)).collect()
    };
    assert_eq!(other(after), other(before), "an edit of {key}");
}

/// One edit; the key that it may have changed, or nothing if it was refused.
fn change(tree: &mut Section, choice: u32) -> Option<String> {
    let count = tree.items().len();
    let key = |n: u32| {
        let index = usize::try_from(n).unwrap_or(0).checked_rem(count)?;
        tree.items().get(index).map(|item| item.key().to_owned())
    };
    let kind = choice % 8;
    if kind == 0 || count == 0 {
        let value = New::Areas(&[("pv0", 0), ("pv1", u64::MAX)]);
        return tree.push("new", value).is_ok().then(|| "new".to_owned());
    }
    let key = key(choice >> 3)?;
    let done = match kind {
        1 => tree.set_int(&key, i64::MIN).is_ok(),
        2 => tree.set_str(&key, "a \"b\" \\ # c").is_ok(),
        3 => tree.set_strings(&key, &["x", "\\"]).is_ok(),
        4 => tree.insert_after(&key, "new", New::Int(-1)).is_ok(),
        5 => tree
            .insert_before(&key, "new", New::Section(Section::new()))
            .is_ok(),
        6 => {
            tree.remove(&key);
            true
        }
        _ => {
            let _ = tree.set_lead(&key, "\n\t# note\n");
            let _ = tree.set_tail("\n");
            true
        }
    };
    done.then_some(key)
}

/// All values by path, in order.
fn flat(tree: &Section) -> Vec<(String, String)> {
    fn walk(tree: &Section, path: &str, out: &mut Vec<(String, String)>) {
        for item in tree.items() {
            let path = format!("{path}/{}", item.key());
            match item.section() {
                Some(inner) => {
                    out.push((path.clone(), "{}".to_owned()));
                    walk(inner, &path, out);
                }
                None => out.push((path, format!("{:?}", item.value()))),
            }
        }
    }
    let mut out = Vec::new();
    walk(tree, "", &mut out);
    out
}
