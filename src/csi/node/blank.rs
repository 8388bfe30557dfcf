//! Proof that an LV holds nothing.

use std::path::Path;

use crate::engine::wipe::signature_ranges;
use crate::host::{Host, HostResult, Probe};

use super::format::Content;

/// Bytes read at once.
const CHUNK: u64 = 512 * 1024;

/// What is on the device at `node`, of `size` bytes.
///
/// No signature alone is not blank: data of an application that libblkid does
/// not know has none. The places that creation zeroed must still be zero.
pub(super) fn content(host: &Host, node: &Path, size: u64) -> HostResult<Content> {
    Ok(match host.fs.probe(node)? {
        Probe::Signature(kind) => Content::Signature(kind),
        Probe::Ambivalent => Content::Ambivalent,
        Probe::NoSignature if is_zero(host, node, size)? => Content::Blank,
        Probe::NoSignature => Content::Unknown,
    })
}

fn is_zero(host: &Host, node: &Path, size: u64) -> HostResult<bool> {
    let device = host.block.open_path(node)?;
    for (offset, length) in signature_ranges(size) {
        let mut done = 0;
        while done < length {
            let step = CHUNK.min(length - done);
            let mut buffer = vec![0; usize::try_from(step).unwrap_or(0)];
            device.read_at(offset + done, &mut buffer)?;
            if buffer.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            done += step;
        }
    }
    Ok(true)
}

/// Zeroes every place where a signature is looked for. The caller knows that
/// the content is nobody's.
pub(super) fn erase(host: &Host, node: &Path, size: u64) -> HostResult<()> {
    let info = host.block.open_path(node)?.info().clone();
    let device = host.block.open(&info, true)?;
    for (offset, length) in signature_ranges(size) {
        device.zero(offset, length)?;
    }
    device.flush()
}
