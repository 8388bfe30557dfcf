//! What a test must not leave on a node.

use crate::Node;

/// Everything of a volume that is still on the node: LVs, mounts, device-mapper
/// and loop devices; and what lvm2 finds wrong with the VGs.
#[must_use]
pub fn remains(node: Node) -> Vec<String> {
    const SCRIPT: &str = r"
lvs --noheadings -o vg_name,lv_name,lv_tags 2>&1 | sed 's/^/LV/'
grep -E 'pvc-|lvmvg' /proc/self/mountinfo | sed 's/^/mount /'
dmsetup ls 2>&1 | grep -v '^No devices found' | sed 's/^/dm device /'
losetup -a | sed 's/^/loop device /'
for vg in $(vgs --noheadings -o vg_name); do vgck $vg >/dev/null 2>&1 || echo vgck $vg fails; done
true
";
    node.run(SCRIPT)
        .lines()
        .map(|line| format!("{}: {line}", node.name()))
        .collect()
}
