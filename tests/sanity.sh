#!/bin/sh
# Runs the upstream csi-sanity against `lvcsi standalone`, for mounted and for
# block volumes, in the guest (cargo xtask test sanity). Wants LVCSI_BIN (the
# driver), LVCSI_SANITY (csi-sanity) and LVCSI_SCRATCH (a folder on tmpfs).
set -eu

dir=$LVCSI_SCRATCH/sanity
socket=$dir/csi.sock
vg=sanity
mkdir -p "$dir"
truncate -s 8G "$dir/pv.img"
loop=$(losetup --find --show "$dir/pv.img")
driver=

finish() {
    [ -z "$driver" ] || kill "$driver" 2>/dev/null || true
    [ -z "$driver" ] || wait "$driver" || true
    vgremove -ff -y -q "$vg" >/dev/null 2>&1 || true
    losetup -d "$loop" || true
}
trap finish EXIT

pvcreate -q "$loop"
vgcreate -q "$vg" "$loop"
cat >"$dir/parameters.yaml" <<END
volgroup: "$vg"
storage: "lvm"
END

"$LVCSI_BIN" standalone --endpoint "unix://$socket" --nodeid sanity-node \
    >"$dir/driver.log" 2>&1 &
driver=$!
tries=0
while ! [ -S "$socket" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || ! kill -0 "$driver" 2>/dev/null; then
        echo "sanity: the driver does not serve:" >&2
        cat "$dir/driver.log" >&2
        exit 1
    fi
    sleep 0.1
done

status=0
for access in mount block; do
    echo "--- csi-sanity, $access volumes"
    "$LVCSI_SANITY" --ginkgo.no-color --ginkgo.timeout=10m \
        --csi.endpoint "unix://$socket" \
        --csi.testvolumeaccesstype "$access" \
        --csi.testvolumeparameters "$dir/parameters.yaml" \
        --csi.testvolumesize $((64 << 20)) \
        --csi.testvolumeexpandsize $((128 << 20)) \
        --csi.mountdir "$dir/target-$access" \
        --csi.stagingdir "$dir/staging-$access" || status=$?
    left=$(lvs --noheadings -o lv_name "$vg" | wc -l)
    if [ "$left" != 0 ]; then
        echo "sanity: $left logical volumes are left over after the $access run:" >&2
        lvs -o+lv_tags "$vg" >&2
        status=1
    fi
    vgck "$vg" || status=1
done

if [ $status != 0 ]; then
    echo "--- the driver's log, last lines" >&2
    tail -n 80 "$dir/driver.log" >&2
fi
exit $status
