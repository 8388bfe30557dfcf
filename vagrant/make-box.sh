#!/bin/sh
# Makes a Vagrant box for libvirt from Debian packages, for machines where the
# public box cannot be downloaded. It stands in for debian/bookworm64: a minimal
# Debian 12 with lvm2 and the file systems' tools. Needs root, mmdebstrap,
# extlinux, qemu-img and loop devices.
#
#   make-box.sh DRIVER OUTPUT.box      DRIVER is kvm or qemu (emulation)
set -eu

driver=$1
output=$2
work=$(mktemp -d "$output.XXXXXX")
root=$work/root
disk=$work/disk.raw
mounted=

finish() {
    [ -z "$mounted" ] || umount "$work/mnt"
    # An interrupted installation may have left mounts of this machine's /proc.
    rm -rf --one-file-system "$work"
}
trap finish EXIT

# On Debian 12 the same servers as this machine's own; elsewhere the usual ones.
mirror=
if grep -q '^VERSION_CODENAME=bookworm' /etc/os-release && grep -q '^ID=debian' /etc/os-release; then
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.sources; do
        [ -s "$list" ] && mirror="$mirror $list"
    done
fi

packages=systemd-sysv,udev,dbus,openssh-server,sudo,linux-image-amd64,initramfs-tools,zstd
packages=$packages,lvm2,dmsetup,thin-provisioning-tools,e2fsprogs,xfsprogs,btrfs-progs
packages=$packages,iproute2,rsync,kmod,util-linux,fdisk,procps,strace,ca-certificates

# A small initramfs with what a virtual machine needs is made and booted faster.
small_initramfs='mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
    echo MODULES=list >"$1/etc/initramfs-tools/conf.d/lvcsi"
    printf "%s\n" virtio_pci virtio_blk ext4 >"$1/usr/share/initramfs-tools/modules.d/lvcsi"'

echo "make-box: installing Debian"
# shellcheck disable=SC2086 # a list of files
mmdebstrap --quiet --variant=minbase --format=directory --include="$packages" \
    --essential-hook="$small_initramfs" \
    --dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-exclude=/usr/share/man/* \
    --dpkgopt=path-exclude=/usr/share/locale/* \
    bookworm "$root" $mirror

echo "make-box: configuring"
key=$(find / -xdev -path '*/keys/vagrant.pub' -print -quit 2>/dev/null)
[ -n "$key" ] || { echo "make-box: Vagrant's public key is not on this machine" >&2; exit 1; }
chroot "$root" useradd --create-home --shell /bin/bash vagrant
install -d -m 700 "$root/home/vagrant/.ssh"
install -m 600 "$key" "$root/home/vagrant/.ssh/authorized_keys"
chroot "$root" chown -R vagrant:vagrant /home/vagrant/.ssh
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/vagrant"
chmod 440 "$root/etc/sudoers.d/vagrant"
echo 'UseDNS no' >"$root/etc/ssh/sshd_config.d/vagrant.conf"
cat >"$root/etc/systemd/network/eth0.network" <<'END'
[Match]
Name=eth0
[Network]
DHCP=ipv4
[DHCPv4]
ClientIdentifier=mac
END
chroot "$root" systemctl enable --quiet systemd-networkd ssh
chroot "$root" systemctl mask --quiet apt-daily.timer apt-daily-upgrade.timer \
    e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-networkd-wait-online.service
echo lvcsi >"$root/etc/hostname"
echo '127.0.0.1 localhost lvcsi' >"$root/etc/hosts"
: >"$root/etc/machine-id"
echo 'LABEL=lvcsi-root / ext4 defaults 0 0' >"$root/etc/fstab"
mkdir -p "$root/boot/extlinux"
# Emulated processors share the counter of the machine below, which Linux does not
# believe without being told; every other clock is slow to look at.
cat >"$root/boot/extlinux/extlinux.conf" <<'END'
DEFAULT debian
PROMPT 0
LABEL debian
  LINUX /vmlinuz
  INITRD /initrd.img
  APPEND root=LABEL=lvcsi-root ro net.ifnames=0 console=ttyS0 mitigations=off tsc=reliable
END

echo "make-box: writing the disk"
# extlinux reads neither 64-bit group descriptors nor metadata checksums.
truncate -s 8G "$disk"
echo 'start=2048, type=83, bootable' | sfdisk --quiet "$disk"
mke2fs -q -t ext4 -L lvcsi-root -d "$root" -O ^64bit,^metadata_csum \
    -E offset=1048576 "$disk" 8386560k
dd if=/usr/lib/EXTLINUX/mbr.bin of="$disk" bs=440 count=1 conv=notrunc status=none
mkdir "$work/mnt"
mount -o loop,offset=1048576 "$disk" "$work/mnt"
mounted=1
extlinux --install "$work/mnt/boot/extlinux" >/dev/null 2>&1
umount "$work/mnt"
mounted=
qemu-img convert -O qcow2 "$disk" "$work/box.img"

echo '{"provider":"libvirt","format":"qcow2","virtual_size":8}' >"$work/metadata.json"
cat >"$work/Vagrantfile" <<END
Vagrant.configure("2") do |config|
  config.vm.provider(:libvirt) { |libvirt| libvirt.driver = "$driver" }
end
END
tar -C "$work" -cf "$output" metadata.json Vagrantfile box.img
