//! What a volume's context says: the contract's attributes of a PV.

use std::collections::HashMap;

use lvm2::name::VgName;

use crate::host::FsKind;

/// Name of the VG.
const VOLGROUP: &str = "openebs.io/volgroup";
/// Kind of storage.
const CAS_TYPE: &str = "openebs.io/cas-type";
/// Arguments for mkfs.
const FORMAT_OPTIONS: &str = "openebs.io/format-options";
/// File system where the capability names none.
const FS_TYPE: &str = "openebs.io/fs-type";

/// The context of a volume in `vg`.
pub(crate) fn of(
    vg: &VgName,
    format_options: Option<&str>,
    fs: Option<FsKind>,
) -> HashMap<String, String> {
    let mut context = HashMap::from([
        (VOLGROUP.to_owned(), vg.to_string()),
        (CAS_TYPE.to_owned(), "localpv-lvm".to_owned()),
    ]);
    if let Some(options) = format_options {
        context.insert(FORMAT_OPTIONS.to_owned(), options.to_owned());
    }
    if let Some(fs) = fs {
        context.insert(FS_TYPE.to_owned(), fs.as_str().to_owned());
    }
    context
}

/// Arguments for mkfs, split at white space.
pub(crate) fn format_options(context: &HashMap<String, String>) -> Vec<String> {
    context
        .get(FORMAT_OPTIONS)
        .map(|options| options.split_whitespace().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// The file system's name, if the class said one; may be empty.
pub(crate) fn fs_type(context: &HashMap<String, String>) -> &str {
    context.get(FS_TYPE).map_or("", String::as_str)
}
