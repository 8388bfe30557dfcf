#!/bin/sh
# Fills the root of the driver's image: its own program, mkfs and fsck (the only
# programs that it starts) and the libraries of all of them. No shell and no
# package manager are in it.
#
#   rootfs.sh DEST PROGRAM [--bare]
#
# PROGRAM becomes /usr/local/bin/NAME; --bare leaves mkfs and fsck out.
set -eu
dest=$1 program=$2 bare=${3:-}

copy() {
    mkdir -p "$dest$(dirname "$1")"
    cp -L "$1" "$dest$1"
}

libraries() {
    # "NAME => PATH (ADDRESS)", and the loader as "PATH (ADDRESS)".
    ldd "$1" | sed -n 's/^.*[[:space:]]\(\/[^ ]*\) (0x.*$/\1/p' | while read -r library; do
        [ -e "$dest$library" ] || copy "$library"
    done
}

mkdir -p "$dest/usr/local/bin" "$dest/etc" "$dest/tmp"
cp "$program" "$dest/usr/local/bin/"
libraries "$program"
[ "$bare" = --bare ] && exit 0
for name in mkfs.ext2 mkfs.ext3 mkfs.ext4 fsck.ext2 fsck.ext3 fsck.ext4 mkfs.xfs mkfs.btrfs; do
    path=$(PATH=/usr/sbin:/sbin:/usr/bin:/bin command -v "$name") ||
        { echo "rootfs.sh: no $name: install e2fsprogs, xfsprogs and btrfs-progs" >&2; exit 1; }
    mkdir -p "$dest/usr/sbin"
    cp -L "$path" "$dest/usr/sbin/$name"
    libraries "$path"
done
copy /etc/mke2fs.conf
