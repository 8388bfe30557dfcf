//! Stock lvm2 as the witness.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::process::{Ran, run};
use crate::{host, loopvg};

/// Complaints that say something about how we call it, not about the disks.
const EXPECTED: [&str; 5] = [
    "Activation disabled. No device-mapper interaction will be attempted.",
    "This metadata update is NOT backed up.",
    "not zeroed.",
    // A wipe that was asked for.
    "Wiping ",
    "Logical volume \"",
];

/// How stock lvm2 is called.
#[derive(Debug, Clone, Default)]
pub struct Lvm {
    extra: Vec<String>,
}

/// An LV as `lvs` reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LvRow {
    /// Name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// The ten letters.
    pub attr: String,
    /// Id with dashes.
    pub uuid: String,
    /// Segments in order: type, stripes, first extent, extents, PV ranges.
    pub segments: Vec<SegRow>,
}

/// A segment as `lvs --segments` reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegRow {
    /// `linear`, `striped`, …
    pub kind: String,
    /// First extent in the LV.
    pub start: u64,
    /// Extents.
    pub count: u64,
    /// `/dev/loop0:0-1`, one per stripe.
    pub ranges: Vec<String>,
}

impl Lvm {
    /// lvm2 for a VG on these devices. With device-mapper it is called plainly,
    /// with the machine's own configuration; without, in the way that needs no
    /// kernel driver, and shown no other devices.
    #[must_use]
    pub fn on(devices: &[&Path]) -> Self {
        if host::has_dm() {
            return Self::default();
        }
        Self::apart(devices)
    }

    /// lvm2 that sees these devices alone and never talks to device-mapper.
    #[must_use]
    pub fn apart(devices: &[&Path]) -> Self {
        let accept: String = devices
            .iter()
            .map(|path| format!("\"a|^{}$|\",", path.display()))
            .collect();
        let config = format!(
            "devices{{use_devicesfile=0 obtain_device_list_from_udev=0 \
             external_device_info_source=\"none\" hints=\"none\" filter=[{accept}\"r|.*|\"]}} \
             activation{{udev_sync=0 udev_rules=0}} backup{{backup=0 archive=0}}"
        );
        Self {
            extra: vec![
                "--driverloaded".into(),
                "n".into(),
                "--config".into(),
                config,
            ],
        }
    }

    /// The same with more configuration.
    #[must_use]
    pub fn with_config(&self, config: &str) -> Self {
        let mut extra = self.extra.clone();
        match extra.last_mut() {
            Some(present) => *present = format!("{present} {config}"),
            None => extra.extend(["--config".into(), config.into()]),
        }
        Self { extra }
    }

    /// Runs an lvm2 command.
    #[must_use]
    pub fn run(&self, args: &[&str]) -> Ran {
        let mut argv: Vec<&str> = args.to_vec();
        // Positional arguments may follow options; lvm2 takes both anywhere.
        argv.extend(self.extra.iter().map(String::as_str));
        run("lvm", &argv)
    }

    /// Runs an lvm2 command that must succeed without a complaint.
    ///
    /// # Panics
    /// If it fails or warns.
    pub fn clean(&self, args: &[&str]) -> Ran {
        let ran = self.run(args).expect_success();
        assert!(complaints(&ran).is_empty(), "lvm2 complains: {ran}");
        ran
    }

    /// `vgck`, `lvs -a` and `pvs` must succeed without a complaint.
    ///
    /// # Panics
    /// If one does not.
    pub fn assert_clean(&self, vg: &str) {
        self.clean(&["vgck", vg]);
        self.clean(&["lvs", "-a", vg]);
        self.clean(&["pvs"]);
    }

    /// Rows of a report as JSON objects.
    ///
    /// # Panics
    /// If lvm2 fails, warns, or prints no JSON.
    #[must_use]
    pub fn report(&self, command: &str, columns: &str, args: &[&str]) -> Vec<Value> {
        let mut argv = vec![
            command,
            "--reportformat",
            "json",
            "--units",
            "b",
            "--nosuffix",
        ];
        argv.extend(["-o", columns]);
        argv.extend(args);
        let ran = self.clean(&argv);
        let tree: Value = serde_json::from_str(&ran.stdout).expect("JSON of lvm2");
        let report = tree["report"][0].as_object().expect("a report");
        let rows = report.values().next().and_then(Value::as_array);
        rows.unwrap_or_else(|| panic!("no rows in {ran}")).clone()
    }

    /// Every LV of the VG with its segments, sorted by name.
    ///
    /// # Panics
    /// If lvm2 fails or warns.
    #[must_use]
    pub fn lvs(&self, vg: &str) -> Vec<LvRow> {
        let columns = "lv_name,lv_size,lv_tags,lv_attr,lv_uuid,\
                       segtype,seg_start_pe,seg_size_pe,seg_pe_ranges";
        let mut lvs: BTreeMap<String, LvRow> = BTreeMap::new();
        for row in self.report("lvs", columns, &["-a", "--segments", vg]) {
            let lv = lv_row(&row);
            let lv = lvs.entry(lv.name.clone()).or_insert(lv);
            lv.segments.push(SegRow {
                kind: text(&row, "segtype"),
                start: number(&row, "seg_start_pe"),
                count: number(&row, "seg_size_pe"),
                ranges: text(&row, "seg_pe_ranges")
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect(),
            });
        }
        for lv in lvs.values_mut() {
            lv.segments.sort_by_key(|segment| segment.start);
        }
        lvs.into_values().collect()
    }

    /// The VG's sequence number as lvm2 sees it.
    ///
    /// # Panics
    /// If lvm2 fails or warns.
    #[must_use]
    pub fn seqno(&self, vg: &str) -> u64 {
        let rows = self.report("vgs", "vg_seqno", &[vg]);
        number(rows.first().expect("the VG"), "vg_seqno")
    }
}

/// Lines of standard error that are not [`EXPECTED`].
#[must_use]
pub fn complaints(ran: &Ran) -> Vec<&str> {
    let lines = ran
        .stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    lines
        .filter(|line| !EXPECTED.iter().any(|expected| line.contains(expected)))
        .collect()
}

/// Names of the kernel's dm devices that belong to `vg`.
///
/// # Panics
/// If `dmsetup` fails.
#[must_use]
pub fn dm_devices(vg: &str) -> Vec<String> {
    if !host::has_dm() {
        return Vec::new();
    }
    let ran = run("dmsetup", &["ls"]).expect_success();
    let prefix = format!("{}-", loopvg::dm_escape(vg));
    ran.stdout
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with(&prefix) && !name[prefix.len()..].starts_with('-'))
        .map(str::to_owned)
        .collect()
}

fn text(row: &Value, key: &str) -> String {
    row[key]
        .as_str()
        .unwrap_or_else(|| panic!("{key}: not in {row}"))
        .to_owned()
}

fn number(row: &Value, key: &str) -> u64 {
    text(row, key)
        .parse()
        .unwrap_or_else(|_| panic!("{key}: no number in {row}"))
}

fn lv_row(row: &Value) -> LvRow {
    let tags = text(row, "lv_tags");
    let mut tags: Vec<_> = tags
        .split(',')
        .filter(|tag| !tag.is_empty())
        .map(str::to_owned)
        .collect();
    tags.sort();
    LvRow {
        name: text(row, "lv_name").trim_matches(['[', ']']).to_owned(),
        size: number(row, "lv_size"),
        tags,
        attr: text(row, "lv_attr"),
        uuid: text(row, "lv_uuid"),
        segments: Vec::new(),
    }
}
