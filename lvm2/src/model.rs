//! The volume group that a metadata text describes.
