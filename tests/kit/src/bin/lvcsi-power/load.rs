//! Several callers at once, none of which touches a volume of another, so that
//! commits hold several requests, and each volume has one at a time in flight.

use lvcsi_kit::{Csi, Rng, pattern};
use tonic::Code;

use crate::VG;
use crate::host::Host;
use crate::look::Volume;

const CALLERS: usize = 3;
/// Volumes that a caller keeps at most.
const VOLUMES: usize = 4;
const MIB: u64 = 1 << 20;
/// Largest new volume, and largest volume at all.
const NEW: u64 = 4 * MIB;
const LARGEST: u64 = 7 * MIB;

/// Goes on until the power goes.
pub(crate) fn run(host: &Host, csi: &Csi, volumes: Vec<Volume>, seed: u64) {
    let mut shares: Vec<Vec<Volume>> = vec![Vec::new(); CALLERS];
    for (index, volume) in volumes.into_iter().enumerate() {
        shares[index % CALLERS].push(volume);
    }
    std::thread::scope(|scope| {
        for (number, volumes) in shares.into_iter().enumerate() {
            let mut caller = Caller {
                host: host.clone(),
                csi: csi.clone(),
                rng: Rng::new(seed.wrapping_add(number as u64)),
                // Names are never used twice: what was removed must not come
                // back, not even as another volume.
                prefix: format!("v{seed:x}c{number}n"),
                made: 0,
                volumes,
            };
            scope.spawn(move || {
                loop {
                    caller.step();
                }
            });
        }
    });
}

struct Caller {
    host: Host,
    csi: Csi,
    rng: Rng,
    prefix: String,
    made: u32,
    volumes: Vec<Volume>,
}

impl Caller {
    fn step(&mut self) {
        let count = self.volumes.len();
        if count == 0 || (count < VOLUMES && self.rng.below(3) == 0) {
            return self.create();
        }
        let index = usize::try_from(self.rng.below(count as u64)).expect("an index");
        match self.rng.below(4) {
            0 if count > 1 => self.remove(index),
            0 | 1 => self.extend(index),
            _ => self.write(index),
        }
    }

    fn create(&mut self) {
        self.made += 1;
        let name = format!("{}{}", self.prefix, self.made);
        let size = (1 + self.rng.below(NEW / MIB)) * MIB;
        // Mostly raw ones: every byte of theirs is visible.
        let (kind, fs) = *self
            .rng
            .pick(&[("block", ""), ("block", ""), ("mount", "ext4")]);
        self.host.ask(&format!("begin create {name} {size} {kind}"));
        match self.csi.create(VG, &name, bytes(size), fs) {
            Ok(volume) => {
                let size = u64::try_from(volume.capacity_bytes).expect("a size");
                self.host.ask(&format!("done {name} {size}"));
                self.volumes.push(Volume { name, size });
                self.write(self.volumes.len() - 1);
            }
            Err(status) => self.refused(&name, &status),
        }
    }

    fn extend(&mut self, index: usize) {
        let Volume { name, size } = self.volumes[index].clone();
        if size >= LARGEST {
            return self.remove(index);
        }
        let to = size + MIB;
        self.host.ask(&format!("begin extend {name} {to}"));
        match self.csi.expand(&name, bytes(to)) {
            Ok(size) => {
                let size = u64::try_from(size).expect("a size");
                self.host.ask(&format!("done {name} {size}"));
                self.volumes[index].size = size;
            }
            Err(status) => self.refused(&name, &status),
        }
    }

    fn remove(&mut self, index: usize) {
        let name = self.volumes.swap_remove(index).name;
        self.host.ask(&format!("begin remove {name} 0"));
        self.csi
            .delete(&name)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        self.host.ask(&format!("done {name} 0"));
    }

    fn write(&mut self, index: usize) {
        let volume = &self.volumes[index];
        let name = &volume.name;
        let answer = self
            .host
            .ask(&format!("begin write {name} {}", volume.size));
        let generation = answer
            .parse()
            .unwrap_or_else(|_| panic!("the host says {answer:?}"));
        pattern::write_device(&volume.node(), name, generation, volume.size)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        self.host.ask(&format!("done {name} {}", volume.size));
    }

    /// A full VG refuses, and nothing has changed. No other error is right.
    fn refused(&mut self, name: &str, status: &tonic::Status) {
        assert_eq!(status.code(), Code::ResourceExhausted, "{name}: {status}");
        self.host.ask(&format!("refused {name}"));
        if !self.volumes.is_empty() {
            self.remove(0);
        }
    }
}

fn bytes(size: u64) -> i64 {
    i64::try_from(size).expect("a size")
}
