#!/bin/busybox sh
# First and only process tree of a machine whose power will be cut: no udev, no
# file system but this one.
/bin/busybox --install -s /bin
export PATH=/bin:/sbin LVCSI_BIN=/bin/lvcsi RUST_BACKTRACE=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /run/lock/lvm /run/lvm /tmp
for m in $(cat /modules/order); do
    insmod "/modules/$m" || echo "cannot load $m" >/dev/console
done
/bin/lvcsi-power </dev/null >/dev/console 2>&1
echo "lvcsi-power ended with $?" >/dev/console
# The end of the emulator tells the host.
echo o >/proc/sysrq-trigger
while :; do sleep 60; done
