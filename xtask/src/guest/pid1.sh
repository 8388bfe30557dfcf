#!/bin/sh
# First process of the guest on the host's files: runs the command with its
# output on two virtio ports, leaves its status in the results folder, and
# powers off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ip link set lo up 2>/dev/null
hostname lvcsi-guest 2>/dev/null

# Nobody ever writes to this pipe: opening it waits until the power is off.
mkfifo /run/guest.never
off() {
    sync
    echo o >/proc/sysrq-trigger
    : </run/guest.never
}

for port in /sys/class/virtio-ports/*; do
    read -r name <"$port/name" || continue
    case $name in
    lvcsi.stdout) out=/dev/${port##*/} ;;
    lvcsi.stderr) err=/dev/${port##*/} ;;
    esac
done
if [ -z "$out" ] || [ -z "$err" ]; then
    echo "guest: the virtio ports are missing" >/dev/console
    off
fi

# A port can be open only once; a pipe before it lets the command open
# /dev/stdout and hand its streams to as many children as it likes.
mkfifo /run/guest.stdout /run/guest.stderr
cat /run/guest.stdout >"$out" &
cat_out=$!
cat /run/guest.stderr >"$err" &
cat_err=$!
setsid /bin/sh /results/.guest/command.sh \
    </dev/null >/run/guest.stdout 2>/run/guest.stderr &
wait $!
status=$?

# Whatever the command left running holds the pipes open.
for process in /proc/[0-9]*; do
    case ${process#/proc/} in
    1 | "$cat_out" | "$cat_err") ;;
    *) kill -9 "${process#/proc/}" 2>/dev/null ;;
    esac
done
wait "$cat_out" "$cat_err"
echo "$status" >/results/.guest/status
off
