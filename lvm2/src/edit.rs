//! Changes of a volume group.
