//! Power cuts: the emulator of a machine that works is killed at random moments,
//! and after each boot everything that was acknowledged must be there.
//!
//! Two machines side by side: one whose disks keep what reached them, one whose
//! disks lose what was not flushed.

mod archive;
mod books;
mod cache;
mod machine;
mod nbd;
mod rng;
mod station;
mod wire;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::levels::Length;
use crate::tally::Tally;
use crate::{guest, paths, programs};
use machine::Parts;
use rng::Rng;
use station::{Cache, Counts, Station};

/// What fits into a run for a change.
const SHORT: Duration = Duration::from_secs(100);
/// Cuts of each machine in a nightly run.
const NIGHTLY: u64 = 60;

/// The level `power`.
pub(crate) fn level(length: Length) -> Result<Tally> {
    let seed = seed()?;
    println!("power: LVCSI_SEED={seed}");
    let mut rng = Rng::new(seed);
    let name = format!("power-{}", std::process::id());
    let dir = paths::guest_cache().join("runs").join(&name);
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let parts = parts(&dir)?;
    let (wanted, until) = match length {
        Length::Short => (u64::MAX, Some(Instant::now() + SHORT)),
        Length::Nightly => (NIGHTLY, None),
    };
    let mut stations = Vec::new();
    for (label, cache) in [("kept", Cache::Kept), ("lost", Cache::Lost)] {
        let station = Station {
            name: label,
            parts: &parts,
            dir: dir.join(label),
            // The path of a socket must be short, that of a checkout may not be.
            sockets: std::env::temp_dir().join(format!("lvcsi-{name}-{label}")),
            cache,
            rng: Rng::new(rng.next()),
        };
        station.prepare()?;
        stations.push(station);
    }
    let outcomes: Vec<Result<Counts>> = std::thread::scope(|scope| {
        let threads: Vec<_> = stations
            .iter_mut()
            .map(|station| scope.spawn(move || station.run(wanted, until)))
            .collect();
        let panicked = |_| Err(anyhow::anyhow!("the machine's thread panicked"));
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .collect()
    });
    for station in &stations {
        station.remove_sockets()?;
    }
    let mut tally = Tally::default();
    for (station, outcome) in stations.iter().zip(outcomes) {
        tally.add(judge(station.name, outcome));
    }
    if tally.failed == 0 {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    } else {
        println!("power: disks and consoles are kept in {}", dir.display());
    }
    Ok(tally)
}

/// Says what a station counted; a station is one test.
fn judge(name: &str, outcome: Result<Counts>) -> Tally {
    let counts = match outcome {
        Ok(counts) => counts,
        Err(error) => {
            println!("power {name}: {error:#}");
            return Tally::one(false);
        }
    };
    println!(
        "power {name}: {} cuts, {} requests acknowledged, {} in flight at the cuts, \
         {} LVs found half made, metadata areas differed {} times, {} unflushed sectors lost",
        counts.cuts,
        counts.acknowledged,
        counts.in_flight,
        counts.incomplete,
        counts.differed,
        counts.sectors
    );
    for fault in &counts.faults {
        println!("power {name}: {fault}");
    }
    let mut tally = Tally::one(counts.faults.is_empty() && counts.cuts > 0);
    let lost = counts.faults.len();
    tally.prove(&format!("power cuts: {}, lost: {lost}", counts.cuts));
    tally
}

fn parts(dir: &Path) -> Result<Parts> {
    let (lvcsi, load) = programs::power()?;
    let (kernel, accel) = guest::kernel_and_accel()?;
    let initramfs = archive::write(dir, &kernel, &lvcsi, &load)?;
    Ok(Parts {
        kernel,
        accel,
        initramfs,
    })
}

/// What repeats the moments of the cuts, as far as a busy machine lets it.
fn seed() -> Result<u64> {
    match std::env::var("LVCSI_SEED") {
        Ok(text) => text.parse().context("LVCSI_SEED is no number"),
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            u64::try_from(now.as_micros()).context("the clock is far off")
        }
    }
}
