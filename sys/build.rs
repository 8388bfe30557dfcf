//! Generates `bindings.rs` from the kernel's own headers, so that no number or
//! structure of the kernel interface is copied by hand where a header has it.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use bindgen::{Builder, Formatter, RustEdition};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=wrapper.h");
    let out = PathBuf::from(env::var("OUT_DIR")?).join("bindings.rs");
    Builder::default()
        .header("wrapper.h")
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .rust_edition(RustEdition::Edition2024)
        .wrap_unsafe_ops(true)
        // A bundled formatter costs a crate and a formatted file helps nobody.
        .formatter(Formatter::None)
        .generate_comments(false)
        .derive_default(true)
        .allowlist_type("dm_(ioctl|target_spec|target_deps|name_list|target_versions|target_msg)")
        .allowlist_type("loop_config|loop_info64")
        .allowlist_type("btrfs_ioctl_vol_args|xfs_growfs_data|xfs_fsop_geom_v4")
        .allowlist_var("DM_.*|REQ_.*|LO_FLAGS_.*|LO_NAME_SIZE")
        .allowlist_function("semtimedop")
        .blocklist_type("sembuf|timespec")
        .raw_line("use libc::{sembuf, timespec};")
        .generate()?
        .write_to_file(out)?;
    Ok(())
}
