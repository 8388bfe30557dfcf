//! VGs on loop devices, made by stock lvm2 and taken apart on drop.

use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lvcsi_sys::DevNo;
use lvcsi_sys::loopdev::{LoopDevice, LoopOptions};
use tempfile::TempDir;

use crate::process::run;
use crate::{decode, digest, host, lvm, lvm::Lvm};

/// A sparse file attached to a loop device, or a disk of the machine.
#[derive(Debug)]
pub struct Disk {
    device: Device,
    file: PathBuf,
}

#[derive(Debug)]
enum Device {
    Loop(LoopDevice),
    Whole(DevNo),
}

impl Disk {
    /// Makes a file of `size` bytes in `dir` and attaches it.
    ///
    /// # Panics
    /// If that fails, for instance without root's rights.
    #[must_use]
    pub fn new(dir: &Path, name: &str, size: u64, block_size: u32) -> Self {
        let file = dir.join(name);
        let handle = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&file)
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        handle.set_len(size).expect("size of a loop file");
        let options = LoopOptions {
            block_size,
            ..LoopOptions::default()
        };
        let device = LoopDevice::attach(&handle, options)
            .unwrap_or_else(|e| panic!("attach {} to a loop device: {e}", file.display()));
        Self {
            device: Device::Loop(device),
            file,
        }
    }

    /// A disk that the machine has, and whose content nobody needs.
    ///
    /// # Panics
    /// If there is no such device.
    #[must_use]
    pub fn whole(path: &Path) -> Self {
        let node = std::fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self {
            device: Device::Whole(DevNo::from_rdev(node.rdev())),
            file: path.to_owned(),
        }
    }

    /// The device's node.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.device {
            Device::Loop(device) => device.path(),
            Device::Whole(_) => &self.file,
        }
    }

    /// Gives the device up; the kernel detaches it when the last opener lets
    /// go, and then the returned path vanishes.
    fn detach(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{}/loop", self.devno()))
    }

    /// The device's number.
    #[must_use]
    pub fn devno(&self) -> DevNo {
        match &self.device {
            Device::Loop(device) => device.devno(),
            Device::Whole(number) => *number,
        }
    }

    /// The file behind it; of a disk of the machine, its node.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// What a VG shall look like.
#[derive(Debug, Clone)]
pub struct VgSpec {
    /// Bytes of each disk.
    pub disks: Vec<u64>,
    /// Logical block size, 0 for the kernel's default.
    pub block_size: u32,
    /// Further arguments of `pvcreate`, for each disk.
    pub pvcreate: Vec<Vec<String>>,
    /// Further arguments of `vgcreate`.
    pub vgcreate: Vec<String>,
}

impl VgSpec {
    /// `disks` disks of `mib` MiB, everything else as lvm2 does it by itself.
    #[must_use]
    pub fn disks(disks: usize, mib: u64) -> Self {
        Self {
            disks: vec![mib << 20; disks],
            block_size: 0,
            pvcreate: vec![Vec::new(); disks],
            vgcreate: Vec::new(),
        }
    }

    /// Sets the logical block size.
    #[must_use]
    pub fn block_size(mut self, block_size: u32) -> Self {
        self.block_size = block_size;
        self
    }

    /// Adds arguments of `pvcreate` for disk `index`.
    #[must_use]
    pub fn pvcreate(mut self, index: usize, args: &[&str]) -> Self {
        self.pvcreate[index].extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    /// Adds arguments of `vgcreate`.
    #[must_use]
    pub fn vgcreate(mut self, args: &[&str]) -> Self {
        self.vgcreate.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }
}

/// A VG on loop devices.
#[derive(Debug)]
pub struct LoopVg {
    /// Its name, unique on this machine.
    pub name: String,
    /// Its PVs.
    pub disks: Vec<Disk>,
    /// Stock lvm2, able to see it.
    pub lvm: Lvm,
    dir: TempDir,
}

impl LoopVg {
    /// One disk of `mib` MiB.
    #[must_use]
    pub fn new(mib: u64) -> Self {
        Self::with(&VgSpec::disks(1, mib))
    }

    /// Makes what `spec` asks for.
    ///
    /// # Panics
    /// If stock lvm2 or the kernel refuses.
    #[must_use]
    pub fn with(spec: &VgSpec) -> Self {
        let dir = scratch_dir();
        let new = |(index, size): (usize, &u64)| {
            Disk::new(dir.path(), &format!("disk{index}"), *size, spec.block_size)
        };
        let disks = spec.disks.iter().enumerate().map(new).collect();
        Self::on(dir, disks, spec)
    }

    /// Makes the VG on disks of the machine; sizes in `spec` do not count.
    ///
    /// # Panics
    /// If stock lvm2 or the kernel refuses.
    #[must_use]
    pub fn on_whole(paths: &[&Path], spec: &VgSpec) -> Self {
        let disks = paths.iter().map(|path| Disk::whole(path)).collect();
        Self::on(scratch_dir(), disks, spec)
    }

    fn on(dir: TempDir, disks: Vec<Disk>, spec: &VgSpec) -> Self {
        let name = unique_name();
        let paths: Vec<&Path> = disks.iter().map(Disk::path).collect();
        let lvm = Lvm::on(&paths);
        let names: Vec<&str> = paths
            .iter()
            .map(|path| path.to_str().expect("a loop device"))
            .collect();
        for (device, extra) in names.iter().zip(&spec.pvcreate) {
            let mut args = vec!["pvcreate", "-q", "-y", device];
            args.extend(extra.iter().map(String::as_str));
            lvm.clean(&args);
        }
        let mut args = vec!["vgcreate", "-q", "-y", &name];
        args.extend(&names);
        if host::has_udev() {
            // Its rules would have lvm2 activate LVs behind the tests' back.
            args.extend(["--setautoactivation", "n"]);
        }
        args.extend(spec.vgcreate.iter().map(String::as_str));
        lvm.clean(&args);
        Self {
            name,
            disks,
            lvm,
            dir,
        }
    }

    /// Nodes of the PVs.
    #[must_use]
    pub fn paths(&self) -> Vec<&Path> {
        self.disks.iter().map(Disk::path).collect()
    }

    /// The folder that goes away with the VG.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What the independent decoder reads.
    ///
    /// # Panics
    /// If the disks are damaged or unsound.
    #[must_use]
    pub fn decode(&self) -> decode::Vg {
        let vg = decode::vg(&self.paths());
        vg.assert_sound();
        vg
    }

    /// The metadata text, whatever kinds of LVs it describes.
    ///
    /// # Panics
    /// If the disks are damaged or differ.
    #[must_use]
    pub fn text(&self) -> String {
        decode::vg(&self.paths()).text
    }

    /// A value that changes with any byte of any disk.
    #[must_use]
    pub fn digest(&self) -> Vec<u64> {
        // What somebody wrote through a device's cache must be in its file.
        for disk in &self.disks {
            std::fs::File::open(disk.path())
                .and_then(|f| f.sync_all())
                .expect("flush of a disk");
        }
        self.disks
            .iter()
            .map(|disk| digest::disk_digest(disk.file()))
            .collect()
    }

    /// `vg/lv`.
    #[must_use]
    pub fn lv(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    /// The path that lvm2's users know.
    #[must_use]
    pub fn device(&self, lv: &str) -> PathBuf {
        PathBuf::from(format!(
            "/dev/mapper/{}-{}",
            dm_escape(&self.name),
            dm_escape(lv)
        ))
    }

    /// lvm2 is content with the VG.
    ///
    /// # Panics
    /// If it is not.
    pub fn assert_clean(&self) {
        self.lvm.assert_clean(&self.name);
    }
}

impl Drop for LoopVg {
    fn drop(&mut self) {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for name in lvm::dm_devices(&self.name) {
            let device = format!("/dev/mapper/{name}");
            for line in mounts.lines().filter(|line| line.contains(&device)) {
                if let Some(target) = line.split(' ').nth(4) {
                    let _ = run("umount", &[target]);
                }
            }
            let _ = run("dmsetup", &["remove", "--retry", "--force", &name]);
        }
        let _ = std::fs::remove_dir(format!("/dev/{}", self.name));
        for disk in &self.disks {
            if let Device::Whole(_) = disk.device {
                let _ = run("wipefs", &["-aqf".as_ref(), disk.path().as_os_str()]);
            }
        }
        let devices: Vec<_> = self.disks.drain(..).map(Disk::detach).collect();
        // lvm2 must not see the disks of one test in the next.
        let deadline = Instant::now() + Duration::from_secs(20);
        while devices.iter().any(|state| state.exists()) && Instant::now() < deadline {
            std::thread::yield_now();
        }
    }
}

/// Name part of a dm device: dashes are doubled.
#[must_use]
pub fn dm_escape(name: &str) -> String {
    name.replace('-', "--")
}

fn scratch_dir() -> TempDir {
    tempfile::Builder::new()
        .prefix("lvcsi-")
        .tempdir_in(host::scratch())
        .expect("a folder for loop files")
}

fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "vg{:x}n{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lvm2_and_the_decoder_agree() {
        let vg = LoopVg::with(&VgSpec::disks(2, 64).pvcreate(1, &["--pvmetadatacopies", "2"]));
        let lv = vg.lv("a");
        let mut args = vec![
            "lvcreate", "-y", "-l", "20", "--addtag", "t", "-n", "a", &vg.name,
        ];
        args.extend(["-an", "-Zn", "-Wn"]);
        vg.lvm.clean(&args);
        let before = vg.digest();
        vg.assert_clean();
        assert_eq!(vg.digest(), before, "reports write nothing");

        let decoded = vg.decode();
        assert_eq!(decoded.names(), ["a"]);
        assert_eq!(decoded.lvs[0].extents(), 20);
        let rows = vg.lvm.lvs(&vg.name);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].name.as_str(), rows[0].size), ("a", 80 << 20));
        assert_eq!(rows[0].tags, ["t"]);
        assert_eq!(rows[0].uuid, decoded.lvs[0].id);
        assert_eq!(rows[0].segments.len(), decoded.lvs[0].segments.len());
        assert_eq!(
            i64::try_from(vg.lvm.seqno(&vg.name)).unwrap(),
            decoded.seqno
        );

        vg.lvm.clean(&["lvremove", "-y", &lv]);
        assert_ne!(vg.digest(), before);
        assert!(vg.decode().lvs.is_empty());
    }

    #[test]
    fn four_kib_sectors() {
        let vg = LoopVg::with(&VgSpec::disks(1, 64).block_size(4096));
        vg.assert_clean();
        let pv = decode::pv(vg.paths()[0]).unwrap();
        assert_eq!((pv.flags & 1, pv.data_start), (1, 1 << 20));
        assert_eq!(pv.mdas.len(), 1);
    }
}
