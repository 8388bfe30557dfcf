//! lvcsi.
fn main() {}
