//! LVM2 metadata.
