#!/bin/bash
# Turns a guest into a Kubernetes node: network, cgroups, containerd, kubelet.
# Runs until it is killed.
#
#   node.sh NAME API_PORT EXEC_PORT TOOLS IMAGES KUBECONFIG
#
# NAME is the node's; API_PORT the API server's on the host's loopback; TOOLS the
# folder of the programs; IMAGES the folder of the image store; KUBECONFIG the
# kubelet's. EXEC_PORT serves commands to the tests (see node-exec in the kit).
set -euo pipefail
name=$1 api_port=$2 exec_port=$3 tools=$4 images=$5 kubeconfig=$6
here=$(cd "$(dirname "$0")" && pwd)
export PATH=$tools:$PATH

# --- kernel and network -------------------------------------------------
modprobe -a virtio_net overlay br_netfilter bridge veth ip_tables iptable_nat iptable_filter nf_nat \
    xt_MASQUERADE xt_comment xt_nat xt_mark xt_conntrack nf_tables nft_compat nft_chain_nat
hostname "$name"
# udev may give the card a name of its own.
udevadm settle
card=$(basename "$(echo /sys/bus/virtio/drivers/virtio_net/virtio*/net/*)")
ip link set "$card" up
ip address add 10.0.2.15/24 dev "$card"
ip route add default via 10.0.2.2
echo 1 >/proc/sys/net/ipv4/ip_forward
# The API server's address in the cluster leads to the host's loopback.
for chain in PREROUTING OUTPUT; do
    iptables -t nat -A "$chain" -d 10.96.0.1/32 -p tcp --dport 443 \
        -j DNAT --to-destination "10.0.2.2:$api_port"
done

# --- cgroups ------------------------------------------------------------
# Processes may not sit in a cgroup that hands controllers to its children.
mkdir -p /sys/fs/cgroup/init
while read -r pid; do
    echo "$pid" >/sys/fs/cgroup/init/cgroup.procs 2>/dev/null || true # kernel threads stay
done </sys/fs/cgroup/cgroup.procs
echo '+cpu +memory +io +pids +cpuset' >/sys/fs/cgroup/cgroup.subtree_control

# --- file systems -------------------------------------------------------
# Overlay on the guest's own overlay is refused, and mounts of pods must travel.
mount --make-rshared /
for dir in /var/lib/kubelet /var/lib/containerd /var/log/pods /var/log/containers; do
    mkdir -p "$dir"
    mount -t tmpfs -o mode=755 "${dir##*/}" "$dir"
    mount --make-rshared "$dir"
done
mkdir -p /run/lock/lvm /etc/cni/net.d /run/node
echo "$name" >/run/node/name
sed "s/@SUBNET@/${SUBNET:-10.244.0.0\/24}/" "$here/cni.conflist" >/etc/cni/net.d/10-lvcsi.conflist

# --- images, containerd, kubelet ------------------------------------------
# What the imports left, without their work.
cp -a "$images/root/." /var/lib/containerd/
containerd --config "$here/containerd.toml" >/results/containerd.log 2>&1 &
until [ -S /run/containerd/containerd.sock ] && ctr version >/dev/null 2>&1; do
    kill -0 $! || { echo "node.sh: containerd ended; see containerd.log" >&2; exit 1; }
    sleep 0.2
done
"$NODE_EXEC" "$exec_port" &
exec kubelet --config="$here/kubelet.yaml" --kubeconfig="$kubeconfig" --hostname-override="$name" \
    --node-ip=10.0.2.15 --root-dir=/var/lib/kubelet --housekeeping-interval=30s >/results/kubelet.log 2>&1
