//! lvcsi.
