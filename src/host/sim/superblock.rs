//! File system superblocks, as far as size and type go, in the real places.

use crate::host::{FsKind, Probe, Signature};

/// Bytes from the start of the device that hold every signature.
pub(super) const HEAD: usize = 68 << 10;
/// Block size of every simulated file system.
pub(super) const BLOCK: u64 = 4096;

const EXT: usize = 1024;
const EXT_MAGIC: [u8; 2] = [0x53, 0xef];
const EXT_HAS_JOURNAL: u8 = 4;
const EXT_EXTENTS: u8 = 0x40;
const BTRFS: usize = 64 << 10;

/// Smallest device that the real mkfs takes, about.
pub(super) fn smallest(kind: FsKind) -> u64 {
    match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => 256 << 10,
        FsKind::Xfs => 300 << 20,
        FsKind::Btrfs => 109 << 20,
    }
}

/// What is to be written where for a file system of `size` bytes.
pub(super) fn superblock(kind: FsKind, size: u64) -> Vec<(u64, Vec<u8>)> {
    let blocks = size / BLOCK;
    let mut block = vec![0; 512];
    let mut set = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    let at = match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => {
            set(4, &blocks.to_le_bytes()[..4]);
            set(24, &[2]);
            set(56, &EXT_MAGIC);
            if kind != FsKind::Ext2 {
                set(92, &[EXT_HAS_JOURNAL]);
            }
            if kind == FsKind::Ext4 {
                set(96, &[EXT_EXTENTS]);
            }
            EXT
        }
        FsKind::Xfs => {
            set(0, b"XFSB");
            set(4, &4096u32.to_be_bytes());
            set(8, &blocks.to_be_bytes());
            0
        }
        FsKind::Btrfs => {
            set(64, b"_BHRfS_M");
            set(112, &(blocks * BLOCK).to_le_bytes());
            BTRFS
        }
    };
    vec![(at as u64, block)]
}

/// The file system whose superblock `head` holds, and its size in bytes.
pub(super) fn read(head: &[u8]) -> Option<(FsKind, u64)> {
    let long = |at: usize| head.get(at..at + 8)?.try_into().ok();
    if at(head, EXT + 56, &EXT_MAGIC) {
        let kind = match (
            head[EXT + 96] & EXT_EXTENTS,
            head[EXT + 92] & EXT_HAS_JOURNAL,
        ) {
            (0, 0) => FsKind::Ext2,
            (0, _) => FsKind::Ext3,
            _ => FsKind::Ext4,
        };
        let blocks = u32::from_le_bytes(head.get(EXT + 4..EXT + 8)?.try_into().ok()?);
        return Some((kind, u64::from(blocks) * BLOCK));
    }
    if at(head, 0, b"XFSB") {
        return Some((FsKind::Xfs, u64::from_be_bytes(long(8)?) * BLOCK));
    }
    if at(head, BTRFS + 64, b"_BHRfS_M") {
        return Some((FsKind::Btrfs, u64::from_le_bytes(long(BTRFS + 112)?)));
    }
    None
}

fn at(head: &[u8], offset: usize, magic: &[u8]) -> bool {
    head.get(offset..offset + magic.len()) == Some(magic)
}

/// All signatures in `head`, as libblkid names them.
pub(super) fn signatures(head: &[u8]) -> Vec<Signature> {
    let mut found = Vec::new();
    let mut add = |kind: &str, offset: usize, length: u64| {
        found.push(Signature {
            kind: kind.to_owned(),
            label: None,
            uuid: None,
            magic: Some((offset as u64, length)),
        });
    };
    match read(head).map(|(kind, _)| kind) {
        Some(kind @ (FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4)) => {
            add(kind.as_str(), EXT + 56, 2);
        }
        Some(FsKind::Btrfs) => add("btrfs", BTRFS + 64, 8),
        Some(FsKind::Xfs) | None => {}
    }
    if at(head, 0, b"XFSB") {
        add("xfs", 0, 4);
    }
    if let Some(sector) = (0..4).find(|sector| at(head, sector * 512, b"LABELONE")) {
        add("LVM2_member", sector * 512, 8);
    }
    if at(head, 0, b"LUKS\xba\xbe") {
        add("crypto_LUKS", 0, 6);
    }
    if at(head, 4086, b"SWAPSPACE2") {
        add("swap", 4086, 10);
    }
    if at(head, 512, b"EFI PART") {
        add("gpt", 512, 8);
    } else if at(head, 510, &[0x55, 0xaa]) && head.get(450).is_some_and(|kind| *kind != 0) {
        add("dos", 510, 2);
    }
    found
}

/// What libblkid's careful probe makes of them.
pub(super) fn probe(head: &[u8]) -> Probe {
    match signatures(head).as_slice() {
        [] => Probe::NoSignature,
        [one] => Probe::Signature(one.kind.clone()),
        _ => Probe::Ambivalent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [FsKind; 5] = [
        FsKind::Ext2,
        FsKind::Ext3,
        FsKind::Ext4,
        FsKind::Xfs,
        FsKind::Btrfs,
    ];

    fn head(parts: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut head = vec![0; HEAD];
        for (at, bytes) in parts {
            let at = usize::try_from(*at).unwrap();
            head[at..at + bytes.len()].copy_from_slice(bytes);
        }
        head
    }

    #[test]
    fn every_kind_is_found_again_with_its_size() {
        for kind in KINDS {
            let head = head(&superblock(kind, (1 << 30) + 100));
            assert_eq!(read(&head), Some((kind, 1 << 30)));
            assert_eq!(probe(&head), Probe::Signature(kind.as_str().to_owned()));
        }
    }

    #[test]
    fn blank_foreign_and_contradicting_content() {
        assert_eq!(probe(&head(&[])), Probe::NoSignature);
        let label = (512, b"LABELONE".to_vec());
        assert_eq!(
            probe(&head(std::slice::from_ref(&label))),
            Probe::Signature("LVM2_member".to_owned())
        );
        let mut both = superblock(FsKind::Ext4, 1 << 20);
        both.push(label);
        assert_eq!(probe(&head(&both)), Probe::Ambivalent);
    }
}
