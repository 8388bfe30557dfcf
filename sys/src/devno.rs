//! Device numbers in the kernel's, libc's and people's notation.

use std::fmt;

/// Number of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevNo {
    /// Driver.
    pub major: u32,
    /// Device of the driver.
    pub minor: u32,
}

impl DevNo {
    /// Makes a number of its parts.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Reads the form that device-mapper uses: 12 bits of major number, 20 of
    /// minor number, the latter's low byte at the bottom. Higher bits are
    /// ignored.
    #[must_use]
    pub const fn from_kernel(dev: u64) -> Self {
        // Both masks leave at most 20 bits.
        #[allow(clippy::cast_possible_truncation, reason = "masked to 12 and 20 bits")]
        Self {
            major: ((dev >> 8) & 0xfff) as u32,
            minor: ((dev & 0xff) | ((dev >> 12) & 0xf_ff00)) as u32,
        }
    }

    /// The form that device-mapper uses; see [`from_kernel`](Self::from_kernel).
    /// Bits beyond what the kernel can hold are lost.
    #[must_use]
    pub const fn to_kernel(self) -> u64 {
        let (major, minor) = (self.major as u64, self.minor as u64);
        (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
    }

    /// Reads `st_rdev` or `st_dev` of stat(2).
    #[must_use]
    pub fn from_rdev(dev: libc::dev_t) -> Self {
        Self {
            major: libc::major(dev),
            minor: libc::minor(dev),
        }
    }

    /// The form that mknod(2) takes.
    #[must_use]
    pub fn to_rdev(self) -> libc::dev_t {
        libc::makedev(self.major, self.minor)
    }
}

/// `M:m`, as in dm tables and sysfs.
impl fmt::Display for DevNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kernel_form_of_known_numbers() {
        assert_eq!(DevNo::new(253, 3).to_kernel(), 0xfd03);
        assert_eq!(DevNo::new(253, 256).to_kernel(), 0x10_fd00);
        assert_eq!(DevNo::from_kernel(0x10_fd01), DevNo::new(253, 257));
        assert_eq!(DevNo::new(253, 257).to_string(), "253:257");
    }

    proptest! {
        #[test]
        fn round_trips(major in 0u32..4096, minor in 0u32..1 << 20) {
            let dev = DevNo::new(major, minor);
            prop_assert_eq!(DevNo::from_kernel(dev.to_kernel()), dev);
            prop_assert_eq!(DevNo::from_rdev(dev.to_rdev()), dev);
        }
    }
}
