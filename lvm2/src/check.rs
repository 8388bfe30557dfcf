//! The rules that metadata must keep.
