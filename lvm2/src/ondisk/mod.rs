//! What lies on the disk.
