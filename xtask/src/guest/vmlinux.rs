//! Unpacking the kernel image once, so that no guest has to: under emulation
//! that takes longer than the rest of the boot. QEMU starts an unpacked kernel
//! through its PVH entry.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::run;

/// What the payload of an image that `xz` made begins with.
const XZ: &[u8] = b"\xfd7zXZ\0";

/// Writes the unpacked kernel beside the image, unless it is there; `None` if
/// the image is packed in a way that we do not know.
pub(super) fn unpack(image: &Path) -> Result<Option<PathBuf>> {
    let unpacked = image.with_file_name(unpacked_name(image));
    if unpacked.exists() {
        return Ok(Some(unpacked));
    }
    let bytes = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let payload = payload(&bytes)
        .with_context(|| format!("{} is no kernel image for x86", image.display()))?;
    if !payload.starts_with(XZ) {
        return Ok(None);
    }
    let fresh = unpacked.with_extension("new");
    unxz(payload, &fresh)?;
    fs::rename(&fresh, &unpacked)?;
    Ok(Some(unpacked))
}

fn unpacked_name(image: &Path) -> String {
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    name.replacen("vmlinuz", "vmlinux", 1)
}

/// The packed kernel within the image, by the fields that the x86 boot protocol
/// gives it.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| -> Option<usize> {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    // An old boot loader's 0 means 4 sectors.
    let setup_sectors = match *image.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (setup_sectors + 1) * 512 + number(0x248)?;
    // The build adds the unpacked size after what xz wrote.
    let length = number(0x24c)?.checked_sub(4)?;
    image.get(start..start.checked_add(length)?)
}

fn unxz(packed: &[u8], to: &Path) -> Result<()> {
    let file = File::create(to).with_context(|| format!("cannot create {}", to.display()))?;
    let mut command = Command::new("xz");
    command.args(["-dc"]).stdin(Stdio::piped()).stdout(file);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", run::display(&command)))?;
    let mut input = child.stdin.take().context("no pipe to xz")?;
    input.write_all(packed).context("cannot feed xz")?;
    drop(input);
    let status = child.wait().context("cannot wait for xz")?;
    if !status.success() {
        bail!("xz cannot unpack the kernel: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::payload;

    #[test]
    fn the_payload_is_where_the_header_says() {
        let mut image = vec![0; 4096];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&10_u32.to_le_bytes());
        image[1040..1050].copy_from_slice(b"packed\x04\0\0\0");
        assert_eq!(payload(&image), Some(&b"packed"[..]));
        image[0x24c..0x250].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(payload(&image), None);
        assert_eq!(payload(b"no kernel"), None);
    }
}
