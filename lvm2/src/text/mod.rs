//! The language of LVM2 metadata.
