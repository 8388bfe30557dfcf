//! Opening `/dev/mapper/control`, also where udev has not made it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, mknod};

use crate::DevNo;

const DIRECTORY: &str = "/dev/mapper";
const NODE: &str = "/dev/mapper/control";
/// Major number of the kernel's miscellaneous devices.
const MISC_MAJOR: u32 = 10;
/// The control device's reserved minor number. Opening a node with it makes the
/// kernel load the module, before which /proc/misc does not list the device.
const RESERVED_MINOR: u32 = 236;

/// Opens the control node, and makes it first if it is absent.
pub(super) fn open() -> io::Result<File> {
    match open_node() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_node(Path::new(NODE))?;
            open_node()
        }
        result => result,
    }
}

fn open_node() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(NODE)
}

fn make_node(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(DIRECTORY) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let minor = listed_minor(&fs::read_to_string("/proc/misc")?).unwrap_or(RESERVED_MINOR);
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    match mknod(
        path,
        SFlag::S_IFCHR,
        mode,
        DevNo::new(MISC_MAJOR, minor).to_rdev(),
    ) {
        // Another process was faster.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// device-mapper's line in /proc/misc: `236 device-mapper`.
fn listed_minor(misc: &str) -> Option<u32> {
    misc.lines()
        .find_map(|line| match *line.split_whitespace().collect::<Vec<_>>() {
            [minor, "device-mapper"] => minor.parse().ok(),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_minor_number() {
        let misc = "234 btrfs-control\n 61 device-mapper\n237 loop-control\n";
        assert_eq!(listed_minor(misc), Some(61));
        assert_eq!(listed_minor("237 loop-control\n"), None);
        assert_eq!(listed_minor("x device-mapper\n"), None);
    }
}
