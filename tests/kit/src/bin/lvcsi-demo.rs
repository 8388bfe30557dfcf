//! A volume's life through CSI, with lvm2 as witness: what `cargo xtask demo`
//! runs in the guest.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a demonstration that cannot go on stops and says why"
)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lvcsi_kit::csi::v1::Volume;
use lvcsi_kit::{Csi, Driver, LoopVg, VgSpec, host, paint, run, stats};

const MIB: i64 = 1 << 20;
/// Rounds of the comparison at the end.
const ROUNDS: usize = 9;

fn main() -> ExitCode {
    if !host::has_dm() {
        eprintln!("lvcsi-demo: this kernel has no device-mapper; use `cargo xtask demo`");
        return ExitCode::from(2);
    }
    let kernel = run("uname", &["-sr"]).stdout;
    let udev = if host::has_udev() {
        "with udev"
    } else {
        "without udev"
    };
    println!("{}", paint::bold("lvcsi: the life of a volume"));
    println!(
        "{}\n",
        paint::dim(&format!("{}, {udev}, lvm2 only as witness", kernel.trim()))
    );

    let mut story = Story { step: 0 };
    let vg = story.tell("lvm2 makes a volume group on two loop devices", || {
        LoopVg::with(&VgSpec::disks(2, 1024))
    });
    story.note(&format!("VG {}, 2 × 1 GiB", vg.name));
    let mut driver = story.tell("The driver starts and serves CSI on its socket", || {
        Driver::start(vg.dir())
    });
    let csi = driver.csi();

    life(&mut story, &vg, &csi);
    compare(&mut story, &vg, &csi);

    let status = story.tell("SIGTERM: the driver drains and ends", || driver.terminate());
    assert!(
        status.success(),
        "the driver ended with {status}:\n{}",
        driver.log()
    );
    println!(
        "\n{}",
        paint::green("Every step succeeded, and lvm2 agreed with all of them.")
    );
    ExitCode::SUCCESS
}

/// From CreateVolume to DeleteVolume.
fn life(story: &mut Story, vg: &LoopVg, csi: &Csi) {
    let volume = story.tell("CreateVolume: 256 MiB for ext4", || {
        csi.create(&vg.name, "pvc-demo", 256 * MIB, "ext4")
            .expect("CreateVolume")
    });
    story.witness(vg);

    let target = vg.dir().join("mnt");
    story.tell("NodePublishVolume: mkfs and mount", || {
        csi.publish(&volume, &target, "ext4")
            .expect("NodePublishVolume");
    });
    story.witness(vg);

    let file = target.join("data");
    let data: Vec<u8> = (0..8 * MIB)
        .map(|n| (n.wrapping_mul(31) >> 3).to_le_bytes()[0])
        .collect();
    story.tell("A program writes 8 MiB and syncs", || write(&file, &data));

    grow(story, csi, &volume, &target);
    story.witness(vg);
    assert!(
        fs::read(&file).expect("the file") == data,
        "the data changed"
    );
    story.note("the 8 MiB are still the same, the mount never went away");

    let stats = story.tell("NodeGetVolumeStats", || {
        csi.stats(&volume.volume_id, &target)
            .expect("NodeGetVolumeStats")
    });
    for usage in &stats.usage {
        let (unit, divisor) = if usage.unit == 1 {
            ("MiB", MIB)
        } else {
            ("inodes", 1)
        };
        let (used, total) = (usage.used / divisor, usage.total / divisor);
        story.note(&format!("{used} of {total} {unit} used"));
    }

    story.tell("NodeUnpublishVolume", || {
        csi.unpublish(&volume.volume_id, &target)
            .expect("NodeUnpublishVolume");
    });
    story.tell("DeleteVolume", || {
        csi.delete(&volume.volume_id).expect("DeleteVolume")
    });
    story.witness(vg);
    assert!(vg.decode().lvs.is_empty(), "the LV is still there");
}

fn write(file: &Path, data: &[u8]) {
    let mut out = fs::File::create(file).expect("a file on the volume");
    out.write_all(data).expect("write");
    out.sync_all().expect("sync");
}

fn grow(story: &mut Story, csi: &Csi, volume: &Volume, target: &Path) {
    let id = &volume.volume_id;
    story.tell("ControllerExpandVolume to 512 MiB while mounted", || {
        assert_eq!(
            csi.expand(id, 512 * MIB).expect("ControllerExpandVolume"),
            512 * MIB
        );
    });
    story.tell("NodeExpandVolume: ext4 grows online", || {
        csi.node_expand(id, target, 512 * MIB)
            .expect("NodeExpandVolume");
    });
}

/// lvcreate and CreateVolume, in turn.
fn compare(story: &mut Story, vg: &LoopVg, csi: &Csi) {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    story.tell(
        &format!("{ROUNDS} × lvcreate and CreateVolume in turn, then removed again"),
        || {
            for n in 0..ROUNDS {
                let name = format!("round{n}");
                let args = ["lvcreate", "-y", "-L", "64M", "-n", &name, &vg.name];
                theirs.push(vg.lvm.run(&args).expect_success().took);
                let _ = vg
                    .lvm
                    .run(&["lvremove", "-y", &vg.lv(&name)])
                    .expect_success();

                let start = Instant::now();
                let volume = csi
                    .create(&vg.name, &name, 64 * MIB, "ext4")
                    .expect("CreateVolume");
                ours.push(start.elapsed());
                csi.delete(&volume.volume_id).expect("DeleteVolume");
            }
        },
    );
    vg.assert_clean();
    let (theirs, ours) = (stats::median(&theirs), stats::median(&ours));
    let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
    println!("     lvcreate      {:>10}   (median)", stats::human(theirs));
    println!(
        "     CreateVolume  {:>10}   (median, through the socket)",
        stats::human(ours)
    );
    println!("     {}", paint::cyan(&format!("{ratio:.0} times as fast")));
}

/// Prints what happens.
struct Story {
    step: u32,
}

impl Story {
    /// Does something and says how long it took.
    fn tell<T>(&mut self, what: &str, act: impl FnOnce() -> T) -> T {
        self.step += 1;
        print!("{:>2}  {what} ", paint::bold(&format!("{:>2}", self.step)));
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let result = act();
        self.line_end(what, start.elapsed());
        result
    }

    fn line_end(&self, what: &str, took: Duration) {
        let dots = ".".repeat(62_usize.saturating_sub(what.chars().count()));
        println!(
            "{} {:>9}",
            paint::dim(&dots),
            paint::cyan(&stats::human(took))
        );
    }

    fn note(&self, text: &str) {
        println!("      {}", paint::dim(text));
    }

    /// What stock lvm2 says now; it must not complain.
    fn witness(&self, vg: &LoopVg) {
        vg.lvm.clean(&["vgck", &vg.name]);
        let columns = "lv_name,lv_attr,lv_size,lv_tags";
        let args = ["lvs", "-a", "--noheadings", "-o", columns, &vg.name];
        let ran = vg.lvm.clean(&args);
        self.note("vgck: no complaint");
        if ran.stdout.trim().is_empty() {
            self.note("lvs:  no LV");
        }
        for line in ran.stdout.lines().filter(|line| !line.trim().is_empty()) {
            self.note(&format!(
                "lvs:  {}",
                line.split_whitespace().collect::<Vec<_>>().join("  ")
            ));
        }
    }
}
