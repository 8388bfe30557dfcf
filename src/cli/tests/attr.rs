//! `lvs -a` against what stock lvm2 printed for the same metadata.

use std::path::Path;
use std::sync::Arc;

use lvm2::model::Vg;
use lvm2::tables::DevNo;

use crate::cli::args::{LvsArgs, OutputArgs, UnitsArgs};
use crate::cli::table::Format;
use crate::cli::units::Units;
use crate::cli::{Terminal, report};
use crate::engine::{LvReport, MetadataUse, Report, VgReport};
use crate::host::DmDevice;

const EXPECTED: &str = include_str!("lvs-a.txt");

fn device(attr: &str) -> Option<DmDevice> {
    let is = |at, letter| attr.as_bytes()[at] == letter;
    is(4, b'a').then(|| DmDevice {
        dev: DevNo {
            major: 253,
            minor: 0,
        },
        name: String::new(),
        uuid: String::new(),
        open_count: u32::from(is(5, b'o')),
        suspended: false,
        read_only: is(1, b'r'),
        active_table: true,
        inactive_table: false,
    })
}

fn lvs(text: &str, rows: &[Vec<&str>]) -> String {
    let vg = Vg::parse(text.as_bytes()).unwrap();
    let attr = |name: &str| {
        let row = rows
            .iter()
            .find(|row| row[0].trim_matches(['[', ']']) == name);
        row.map_or("----------", |row| row[1])
    };
    let lvs = vg.lvs().iter().map(|lv| LvReport {
        name: lv.name.clone(),
        device: device(attr(lv.name.as_str())),
    });
    let lvs = lvs.collect();
    let vg = VgReport {
        vg: Arc::new(vg),
        pvs: Vec::new(),
        lvs,
        refusal: None,
        metadata: MetadataUse::default(),
    };
    let report = Report {
        vgs: vec![vg],
        ..Report::default()
    };
    let args = LvsArgs {
        names: Vec::new(),
        all: true,
        units: UnitsArgs {
            units: Units::Rounded,
        },
        output: OutputArgs {
            output: Format::Table,
        },
    };
    let mut out = Vec::new();
    let mut term = Terminal {
        out: &mut out,
        err: &mut Vec::new(),
        input: &mut std::io::empty(),
        interactive: false,
    };
    report::lvs(&report, &args, &mut term).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn names_order_attributes_and_sizes_are_those_of_lvm2() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("lvm2/tests/data");
    let mut samples = 0;
    for section in EXPECTED.split("## ").skip(1) {
        let mut lines = section.lines();
        let sample = lines.next().unwrap();
        let expected: Vec<Vec<&str>> = lines
            .map(|line| line.split_whitespace().collect())
            .collect();
        let text = std::fs::read_to_string(data.join(format!("meta-{sample}.txt"))).unwrap();
        let printed = lvs(&text, &expected);
        let found: Vec<Vec<&str>> = printed
            .lines()
            .skip(1)
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                vec![words[0], words[2], words[3]]
            })
            .collect();
        assert_eq!(found, expected, "{sample}");
        samples += 1;
    }
    assert!(samples > 15, "{samples}");
}
