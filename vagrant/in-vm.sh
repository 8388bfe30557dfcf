#!/bin/sh
# Prepares a VM for the tests and runs a command in it. This one script is used
# by the QEMU guest (cargo xtask guest) and by Vagrant (cargo xtask vagrant), so
# that both mean the same. Runs as root.
#
#   in-vm.sh [--no-udev] [--] COMMAND [ARG...]
#
# The command gets LVCSI_IN_VM=1, LVCSI_NO_UDEV=1 if there is no udev, and
# LVCSI_SCRATCH, an empty tmpfs folder for loop files.
set -eu

udev=1
while [ $# -gt 0 ]; do
    case $1 in
    --no-udev) udev=0 ;;
    --) shift; break ;;
    -*) echo "in-vm.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || { echo "usage: in-vm.sh [--no-udev] [--] COMMAND [ARG...]" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "in-vm.sh: must run as root" >&2; exit 2; }

# Device-mapper, its targets, and the file systems. raid1 for dm-raid.
# sd_mod for scsi_debug. Loop devices are made on demand by /dev/loop-control.
modprobe -a virtio_blk sd_mod loop dm-mod dm-snapshot dm-thin-pool dm-flakey dm-delay \
    dm-log-writes dm-crypt dm-raid raid1 ext4 xfs btrfs

mkdir -p /run/lock/lvm /run/lvm

if ! [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
echo +io >/sys/fs/cgroup/cgroup.subtree_control

if [ $udev = 1 ]; then
    if ! [ -e /run/udev/control ]; then
        /lib/systemd/systemd-udevd --daemon 2>/dev/null
        # Block devices and device-mapper's control node; the rest of the
        # machine would only cost seconds.
        udevadm trigger --action=add --subsystem-match=block --subsystem-match=misc
    fi
    udevadm settle --timeout=60
elif [ -e /run/udev/control ]; then
    systemctl stop systemd-udevd.service systemd-udevd-control.socket \
        systemd-udevd-kernel.socket
    # libdevmapper takes this socket for a running udev.
    rm -f /run/udev/control
fi

LVCSI_SCRATCH=/run/lvcsi-scratch
mkdir -p "$LVCSI_SCRATCH"
if ! mountpoint -q "$LVCSI_SCRATCH"; then
    mount -t tmpfs -o mode=700,size=80% scratch "$LVCSI_SCRATCH"
fi

export LVCSI_SCRATCH LVCSI_IN_VM=1
[ $udev = 1 ] || export LVCSI_NO_UDEV=1
exec "$@"
