//! Our copies of the metadata in the hands of lvm2: `vgcfgrestore` takes them,
//! and they look like those that `vgcfgbackup` makes.

use std::path::{Path, PathBuf};

use lvcsi_kit::{LoopVg, VgSpec};

use crate::common::{Native, keeping};
use crate::compare;
use crate::edits::{Edit, Model};

/// Makes LVs of some kinds, each by a commit of its own.
fn edits() -> Vec<Edit> {
    let create = |name: &str, stripes, tags: &[&str]| Edit::Create {
        name: name.to_owned(),
        extents: 6,
        stripes,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    };
    vec![
        create("one", 1, &["a=b", "c"]),
        create("two", 2, &[]),
        create("wall", 1, &[]),
        Edit::Extend {
            name: "one".to_owned(),
            by: 4,
        },
        Edit::Rename {
            name: "two".to_owned(),
            to: "t-w.o".to_owned(),
        },
        Edit::Remove {
            name: "wall".to_owned(),
        },
    ]
}

/// The copies, oldest first.
fn copies(vg: &LoopVg) -> Vec<PathBuf> {
    let dir = vg.dir().join("copies").join(&vg.name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)
        .expect("the copies")
        .map(|entry| entry.expect("a copy").path())
        .collect();
    files.sort();
    files
}

/// Lines that say what the VG is, without what differs between any two texts:
/// indentation, comments, and the number of the commit.
fn content(text: &str) -> Vec<String> {
    let vg = text.lines().skip_while(|line| !line.ends_with('{'));
    vg.take_while(|line| !line.starts_with("# Generated"))
        .map(|line| line.split('#').next().unwrap_or_default().trim().to_owned())
        .filter(|line| !line.is_empty() && !line.starts_with("seqno = "))
        .take_while(|line| !line.starts_with("contents = "))
        .collect()
}

#[test]
fn vgcfgrestore_takes_every_copy_and_gives_the_vg_back_to_the_byte() {
    let vg = LoopVg::with(&VgSpec::disks(2, 128));
    let native = Native::open_with(&vg, keeping(vg.dir().join("copies"), true));
    let mut texts = Vec::new();
    for edit in edits() {
        edit.by_us(&native);
        texts.push(vg.text());
    }
    drop(native);
    let files = copies(&vg);
    assert_eq!(files.len(), texts.len(), "one copy for each commit");
    // Back and forth between all of them.
    for (file, text) in files.iter().zip(&texts).rev() {
        let path = file.to_str().expect("a path");
        let listed = vg
            .lvm
            .run(&["vgcfgrestore", "--list", "-f", path, &vg.name]);
        let listed = listed.expect_success();
        assert!(listed.stdout.contains("Write from lvcsi"), "{listed}");
        let restored = vg.lvm.run(&["vgcfgrestore", "-y", "-f", path, &vg.name]);
        let restored = restored.expect_success();
        assert!(
            restored.stdout.contains("Restored volume group"),
            "{restored}"
        );
        let now = vg.text();
        assert_eq!(vg_lines(&now), vg_lines(text), "restored from {path}");
        vg.assert_clean();
    }
    // And we go on from what lvm2 restored.
    let native = Native::open(&vg);
    let mut model = Model::new();
    let first = edits().remove(0);
    first.apply(&mut model);
    compare::all_agree(&vg, &native, &model, "restored");
}

/// The text of the VG itself, byte for byte but for the number of the commit.
fn vg_lines(text: &str) -> Vec<&str> {
    text.lines()
        .take_while(|line| !line.starts_with("# Generated"))
        .filter(|line| !line.starts_with("seqno = "))
        .collect()
}

#[test]
fn a_copy_says_what_vgcfgbackup_says() {
    let vg = LoopVg::with(&VgSpec::disks(2, 128));
    let native = Native::open_with(&vg, keeping(vg.dir().join("copies"), true));
    for edit in edits() {
        edit.by_us(&native);
    }
    let ours = copies(&vg).pop().expect("a copy");
    let theirs = vg.dir().join("theirs");
    let path = theirs.to_str().expect("a path");
    let _ = vg
        .lvm
        .run(&["vgcfgbackup", "-f", path, &vg.name])
        .expect_success();
    let read = |path: &Path| std::fs::read_to_string(path).expect("a copy");
    let (ours, theirs) = (read(&ours), read(&theirs));
    assert_eq!(content(&ours), content(&theirs));
    // The same indentation, and blank lines at the same places.
    let layout = |text: &str| -> Vec<String> {
        text.lines()
            .skip_while(|line| !line.ends_with('{'))
            .map(|line| {
                line.split('#')
                    .next()
                    .unwrap_or_default()
                    .trim_end()
                    .to_owned()
            })
            .collect()
    };
    assert_eq!(layout(&ours), layout(&theirs));
    let keys = |text: &str| -> Vec<String> {
        text.lines()
            .take_while(|line| !line.ends_with('{'))
            .filter_map(|line| line.split_once(" = ").map(|(key, _)| key.to_owned()))
            .collect()
    };
    assert_eq!(keys(&ours), keys(&theirs), "the header");
}
