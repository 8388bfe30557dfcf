//! Device nodes and links where no udev makes them.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use lvm2::tables::DevNo;
use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, mknod};

use super::block::path_error;
use super::discover::device_at;
use crate::host::HostResult;

/// The group `disk`, by the number that every distribution gives it.
const DISK: u32 = 6;

/// Makes and removes nodes below `/dev` as lvm2 does without udev.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    dev: PathBuf,
    /// Nodes of our own, for machines whose `/dev` has none.
    private: PathBuf,
}

impl Nodes {
    pub(super) fn new(dev: PathBuf, private: PathBuf) -> Self {
        Self { dev, private }
    }

    fn mapper(&self, name: &str) -> PathBuf {
        self.dev.join("mapper").join(name)
    }

    /// Makes `/dev/mapper/NAME` and `/dev/VG/LV`; what is right stays, what is
    /// wrong is replaced.
    pub(super) fn make(
        &self,
        name: &str,
        dev: DevNo,
        vg_lv: Option<(&str, &str)>,
    ) -> HostResult<()> {
        let node = self.mapper(name);
        if device_at(&node) != Some(dev) {
            make_dir(&self.dev.join("mapper"), 0o755)?;
            block_node(&node, dev, 0o660).map_err(|error| path_error("create", &node, error))?;
        }
        let Some((vg, lv)) = vg_lv else { return Ok(()) };
        let dir = self.dev.join(vg);
        let link = dir.join(lv);
        make_dir(&dir, 0o755)?;
        let made = match fs::symlink_metadata(&link) {
            // Somebody's file: leave it alone.
            Ok(metadata) if !metadata.is_symlink() => return Ok(()),
            Ok(_) if fs::read_link(&link).is_ok_and(|target| target == node) => return Ok(()),
            Ok(_) => fs::remove_file(&link).and_then(|()| symlink(&node, &link)),
            Err(_) => symlink(&node, &link),
        };
        made.map_err(|error| path_error("create", &link, error))
    }

    /// What is missing or wrong of what [`make`](Self::make) makes.
    pub(super) fn wrong(&self, name: &str, dev: DevNo, vg_lv: (&str, &str)) -> Vec<String> {
        let mut wrong = Vec::new();
        let link = self.dev.join(vg_lv.0).join(vg_lv.1);
        for path in [self.mapper(name), link] {
            match device_at(&path) {
                Some(found) if found == dev => {}
                Some(found) => wrong.push(format!(
                    "{} leads to the device {found} instead of {dev}",
                    path.display()
                )),
                None => wrong.push(format!("{} is missing", path.display())),
            }
        }
        wrong
    }

    /// Removes what [`make`](Self::make) made; absent is fine.
    pub(super) fn remove(&self, name: &str, vg_lv: Option<(&str, &str)>) -> HostResult<()> {
        if let Some((vg, lv)) = vg_lv {
            let dir = self.dev.join(vg);
            let link = dir.join(lv);
            if link.is_symlink() {
                absent_is_fine(fs::remove_file(&link))
                    .map_err(|error| path_error("remove", &link, error))?;
            }
            // Fails while other LVs are there.
            let _ = fs::remove_dir(&dir);
        }
        let node = self.mapper(name);
        absent_is_fine(fs::remove_file(&node)).map_err(|error| path_error("remove", &node, error))
    }

    /// A path by which the device-mapper device `dev` can be opened: devtmpfs's
    /// node if there is one, else a node of our own.
    pub(super) fn path(&self, dev: DevNo) -> HostResult<PathBuf> {
        let name = format!("dm-{}", dev.minor);
        let public = self.dev.join(&name);
        if device_at(&public) == Some(dev) {
            return Ok(public);
        }
        let private = self.private.join(&name);
        if device_at(&private) != Some(dev) {
            make_dir(&self.private, 0o700)?;
            block_node(&private, dev, 0o600)
                .map_err(|error| path_error("create", &private, error))?;
        }
        Ok(private)
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn make_dir(path: &Path, mode: u32) -> HostResult<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(|error| path_error("create", path, error))
}

/// Makes a block node, in place of a wrong node or link of that name.
fn block_node(path: &Path, dev: DevNo, mode: u32) -> io::Result<()> {
    let rdev = lvcsi_sys::DevNo::new(dev.major, dev.minor).to_rdev();
    let make = || mknod(path, SFlag::S_IFBLK, Mode::from_bits_truncate(mode), rdev);
    match make() {
        Err(Errno::EEXIST) => {
            let kind = fs::symlink_metadata(path)?.file_type();
            if !kind.is_symlink() && !kind.is_block_device() {
                return Err(Errno::EEXIST.into());
            }
            fs::remove_file(path)?;
            make()?;
        }
        result => result?,
    }
    // mknod(2) takes the umask into account.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    if mode & 0o060 != 0 {
        chown(path, Some(0), Some(DISK))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn makes_repairs_and_removes() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: mknod needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let dev = dir.path().join("dev");
        let nodes = Nodes::new(dev.clone(), dir.path().join("run"));
        let (a, b) = (DevNo { major: 7, minor: 1 }, DevNo { major: 7, minor: 2 });
        let lv = Some(("vg", "lv"));
        nodes.make("vg-lv", a, lv).unwrap();
        nodes.make("vg-lv", a, lv).unwrap();
        let node = dev.join("mapper/vg-lv");
        assert_eq!(device_at(&dev.join("vg/lv")), Some(a));
        assert_eq!(fs::read_link(dev.join("vg/lv")).unwrap(), node);
        let metadata = fs::metadata(&node).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.gid()), (0o660, DISK));

        assert_eq!(nodes.wrong("vg-lv", a, ("vg", "lv")), [""; 0]);
        assert_eq!(nodes.wrong("vg-lv", b, ("vg", "lv")).len(), 2);
        let none = nodes.wrong("vg-x", a, ("vg", "x"));
        assert!(none[1].ends_with("vg/x is missing"), "{none:?}");
        nodes.make("vg-lv", b, lv).unwrap();
        assert_eq!(
            device_at(&node),
            Some(b),
            "a recycled name leads to the new device"
        );
        fs::remove_file(dev.join("vg/lv")).unwrap();
        symlink("/nowhere", dev.join("vg/lv")).unwrap();
        nodes.make("vg-lv", b, lv).unwrap();
        assert_eq!(
            device_at(&dev.join("vg/lv")),
            Some(b),
            "a wrong link is replaced"
        );
        nodes.make("vg-other", a, Some(("vg", "other"))).unwrap();
        nodes.remove("vg-lv", lv).unwrap();
        nodes.remove("vg-lv", lv).unwrap();
        assert!(!node.exists() && dev.join("vg/other").exists());
        nodes.remove("vg-other", Some(("vg", "other"))).unwrap();
        assert!(!dev.join("vg").exists(), "the empty directory goes");

        fs::create_dir_all(dev.join("vg")).unwrap();
        fs::write(dev.join("vg/lv"), "mine").unwrap();
        nodes.make("vg-lv", a, lv).unwrap();
        assert_eq!(fs::read_to_string(dev.join("vg/lv")).unwrap(), "mine");

        assert_eq!(nodes.path(a).unwrap(), dir.path().join("run/dm-1"));
        nodes.make("x", a, None).unwrap();
        fs::rename(dev.join("mapper/x"), dev.join("dm-1")).unwrap();
        assert_eq!(nodes.path(a).unwrap(), dev.join("dm-1"));
        fs::rename(dev.join("dm-1"), dev.join("dm-2")).unwrap();
        assert_eq!(
            nodes.path(b).unwrap(),
            dir.path().join("run/dm-2"),
            "wrong number"
        );
    }
}
