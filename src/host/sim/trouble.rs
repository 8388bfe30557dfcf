//! Machines with a VG to which nothing may be written, for the tests of every
//! layer above: the same states through the engine, the command line and CSI.

use std::sync::OnceLock;

use super::SimHost;

/// What lvm2 wrote: LV `lin` on two PVs, LV `pad` on the first, six PVs.
const TEXT: &str = include_str!("../../../lvm2/tests/data/meta-linear_2seg.txt");
/// Where its PVs are.
const DISKS: [&str; 6] = [
    "/dev/loop0",
    "/dev/loop1",
    "/dev/loop2",
    "/dev/loop3",
    "/dev/loop4",
    "/dev/loop5",
];
/// Bytes at the start of a PV that metadata may use.
const HEAD: usize = 1 << 20;
/// Where the text of a PV begins.
const TEXT_AT: u64 = 4096 + 512;

/// A state of a VG that forbids changes.
pub(crate) struct Trouble {
    /// For messages of tests.
    pub(crate) name: &'static str,
    /// Puts it on a machine.
    pub(crate) make: fn() -> SimHost,
    /// A word of the rule that an error must have.
    pub(crate) rule: &'static str,
    /// What it must tell an administrator to run.
    pub(crate) cure: &'static str,
    /// Whether [`LV`] may be activated all the same, as lvm2 does it.
    pub(crate) activates: bool,
    /// Whether the VG is found at all.
    pub(crate) found: bool,
}

/// The VG in every state.
pub(crate) const VG: &str = "vgt";
/// An LV of it, made by this driver.
pub(crate) const LV: &str = "pad";

impl Trouble {
    const fn of(
        name: &'static str,
        make: fn() -> SimHost,
        rule: &'static str,
        cure: &'static str,
    ) -> Self {
        Self {
            name,
            make,
            rule,
            cure,
            activates: false,
            found: true,
        }
    }

    const fn activates(mut self) -> Self {
        self.activates = true;
        self
    }

    const fn not_found(mut self) -> Self {
        self.found = false;
        self
    }
}

/// Every such state.
pub(crate) const ALL: &[Trouble] = &[
    Trouble::of("foreign system_id", foreign, "elsewhere", "--systemid"),
    Trouble::of("exported", exported, "exported", "vgimport vgt"),
    Trouble::of("clustered", clustered, "clustered", "--lock-opt force vgt"),
    Trouble::of("lock_type", lock_type, "lvmlockd", "--lock-opt force vgt"),
    Trouble::of(
        "read-only",
        read_only,
        "read-only",
        "vgcfgrestore -f FILE vgt",
    )
    .activates(),
    Trouble::of(
        "unknown VG status",
        vg_status,
        "\"PARTITIONED\"",
        "vgck vgt",
    ),
    Trouble::of("unknown LV status", lv_status, "\"ENCHANTED\"", "vgck vgt"),
    Trouble::of("unknown PV status", pv_status, "\"GLOWING\"", "vgck vgt"),
    Trouble::of(
        "unknown segment type",
        segment,
        "\"raid99\"",
        "lvs --segments",
    )
    .activates(),
    Trouble::of(
        "unknown segment flag",
        segment_flag,
        "+NEWFLAG",
        "lvs --segments",
    )
    .activates(),
    Trouble::of("broken metadata", overlap, "belong to", "vgcfgrestore vgt"),
    Trouble::of("PV away", pv_away, "missing", "vgreduce --removemissing").activates(),
    Trouble::of(
        "PV marked missing",
        pv_marked,
        "misses PV",
        "--restoremissing vgt",
    )
    .activates(),
    Trouble::of("bad CRC", bad_crc, "unreadable", "vgck --updatemetadata").activates(),
    Trouble::of(
        "damaged area header",
        bad_header,
        "unreadable",
        "vgck --updatemetadata",
    )
    .activates(),
    Trouble::of("copies differ", mismatch, "differ", "vgck --updatemetadata").activates(),
    Trouble::of("duplicate PV", duplicate, "appears on", "lvm.conf"),
    Trouble::of("two VGs of one name", two_vgs, "2 VGs", "vgrename"),
    Trouble::of("no readable copy", all_bad, "unreadable", "vgcfgrestore").not_found(),
];

/// The text with the driver's tag on [`LV`].
pub(crate) fn text() -> &'static str {
    static OWNED: OnceLock<String> = OnceLock::new();
    OWNED.get_or_init(|| {
        let (before, after) = TEXT.split_once("\npad {\n").unwrap_or((TEXT, ""));
        let tagged = after.replacen("flags = []\n", "flags = []\ntags = [\"lvcsi\"]\n", 1);
        format!("{before}\npad {{\n{tagged}")
    })
}

/// The VG with the first `from` in its text replaced.
fn with(from: &str, to: &str) -> SimHost {
    let text = text();
    assert!(text.contains(from), "the sample has no {from:?}");
    on_disk(&text.replacen(from, to, 1))
}

fn on_disk(text: &str) -> SimHost {
    let sim = SimHost::new();
    add(&sim, text);
    sim
}

#[allow(clippy::expect_used, reason = "only tests call it")]
fn add(sim: &SimHost, text: &str) {
    sim.add_vg_text(text).expect("a sample fits");
}

/// Everything that may hold metadata, of every disk.
pub(crate) fn heads(sim: &SimHost) -> Vec<Vec<u8>> {
    let disks = DISKS.iter().copied().chain(["/dev/copy", "/dev/twin0"]);
    disks.map(|disk| sim.disk(disk).read(0, HEAD)).collect()
}

fn foreign() -> SimHost {
    with(
        "\"READ\", \"WRITE\"]\nflags = []\n",
        "\"READ\"]\nflags = [\"WRITE_LOCKED\"]\nsystem_id = \"elsewhere\"\n",
    )
}

fn exported() -> SimHost {
    with("[\"RESIZEABLE\"", "[\"EXPORTED\", \"RESIZEABLE\"")
}

fn clustered() -> SimHost {
    with("[\"RESIZEABLE\"", "[\"RESIZEABLE\", \"CLUSTERED\"")
}

fn lock_type() -> SimHost {
    let locked = "flags = []\nlock_type = \"sanlock\"\nlock_args = \"1.0.0:lvmlock\"\n";
    with("flags = []\n", locked)
}

fn read_only() -> SimHost {
    with("\"READ\", \"WRITE\"]", "\"READ\"]")
}

fn vg_status() -> SimHost {
    with("\"RESIZEABLE\"", "\"RESIZEABLE\", \"PARTITIONED\"")
}

fn lv_status() -> SimHost {
    with("\"VISIBLE\"]", "\"VISIBLE\", \"ENCHANTED\"]")
}

fn pv_status() -> SimHost {
    with("\"ALLOCATABLE\"]", "\"ALLOCATABLE\", \"GLOWING\"]")
}

fn segment() -> SimHost {
    with("type = \"striped\"", "type = \"raid99\"")
}

fn segment_flag() -> SimHost {
    with("type = \"striped\"", "type = \"striped+NEWFLAG\"")
}

fn overlap() -> SimHost {
    with("\"pv0\", 3\n", "\"pv0\", 2\n")
}

fn pv_away() -> SimHost {
    let sim = on_disk(text());
    sim.detach("/dev/loop1");
    sim
}

fn pv_marked() -> SimHost {
    let (first, rest) = text().split_once("\npv1 {\n").unwrap_or_default();
    let rest = rest.replacen("flags = []", "flags = [\"MISSING\"]", 1);
    on_disk(&format!("{first}\npv1 {{\n{rest}"))
}

fn bad_crc() -> SimHost {
    let sim = on_disk(text());
    sim.disk("/dev/loop1").write(TEXT_AT + 40, b"damage");
    sim
}

fn bad_header() -> SimHost {
    let sim = on_disk(text());
    sim.disk("/dev/loop1").write(4096 + 100, b"damage");
    sim
}

fn mismatch() -> SimHost {
    let sim = on_disk(text());
    let old = sim.disk("/dev/loop0").read(0, HEAD);
    add(
        &sim,
        &text().replacen("description = \"Write from", "description = \"Once from", 1),
    );
    sim.disk("/dev/loop0").write(0, &old);
    sim
}

fn duplicate() -> SimHost {
    let sim = on_disk(text());
    sim.add_disk("/dev/copy", 512 << 20, 512);
    sim.disk("/dev/copy")
        .write(0, &sim.disk("/dev/loop1").read(0, HEAD));
    sim
}

fn two_vgs() -> SimHost {
    let sim = on_disk(text());
    // Another VG: other ids, other disks.
    let mut other = text().replace("/dev/loop", "/dev/twin");
    for first in ["Q1wilt", "1Ic9xQ", "qJnyc7"] {
        other = other.replace(first, &first.chars().rev().collect::<String>());
    }
    let pvs: Vec<_> = other.split("id = \"").skip(4).take(4).collect();
    let ids: Vec<String> = pvs.iter().map(|pv| pv.chars().take(6).collect()).collect();
    for id in ids {
        other = other.replace(&id, &id.chars().rev().collect::<String>());
    }
    add(&sim, &other);
    sim
}

fn all_bad() -> SimHost {
    let sim = on_disk(text());
    for disk in DISKS {
        sim.disk(disk).write(TEXT_AT + 40, b"damage");
    }
    sim
}
