#!/bin/busybox sh
# First process of the guest, in the initramfs: mounts the host's files
# read-only under a tmpfs overlay and hands over to pid1.sh.
/bin/busybox --install -s /bin
export PATH=/bin

fail() {
    echo "guest init: $*" >/dev/console
    echo o >/proc/sysrq-trigger
    while :; do sleep 60; done
}
# word KEY: the value of KEY=VALUE on the kernel's command line.
word() {
    for w in $(cat /proc/cmdline); do
        case $w in "$1="*) echo "${w#*=}" ;; esac
    done
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
echo 1 >/proc/sys/kernel/sysrq

if [ "$(word lvcsi.mode)" = probe ]; then
    echo lvcsi-probe-ok >/dev/console
    echo o >/proc/sysrq-trigger
    while :; do sleep 60; done
fi

for m in $(cat /modules/order); do
    insmod "/modules/$m" || fail "cannot load $m"
done

plan9=trans=virtio,version=9p2000.L,msize=1048576
mount -t 9p -o "ro,cache=loose,$plan9" root /lower || fail "cannot mount the host's files"
mount -t tmpfs -o mode=755,size=70% upper /upper || fail "no tmpfs"
mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work \
    root /newroot || fail "cannot mount the overlay"
chmod 755 /newroot

cd /newroot || fail "no root"
mkdir -p proc sys dev run tmp results lib/modules
mount -t 9p -o "rw,$plan9" results results || fail "cannot mount the results folder"
modules=$(cat results/.guest/modules)
mount --bind "/lower$modules" lib/modules || fail "no modules in $modules"
mount -t tmpfs -o mode=755,nosuid,nodev run run
# /tmp stays as it is: a checkout or its target folder may be there, and what is
# written to it goes to the overlay's tmpfs like everything else.
mount --move /proc proc
mount --move /sys sys
mount --move /dev dev
mkdir -p dev/pts dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
exec switch_root /newroot /bin/sh /results/.guest/pid1.sh
