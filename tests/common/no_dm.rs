//! Device-mapper on a kernel that has none: nothing is active, and nothing can
//! become so.

use std::io;
use std::path::PathBuf;

use lvcsi::host::{DeviceMapper, DmDevice, DmEntry, Exposure, HostError, HostResult, SuspendMode};
use lvm2::tables::{DevNo, Target};
use nix::errno::Errno;

pub(super) struct NoDm;

fn absent<T>(op: &'static str, device: impl ToString) -> HostResult<T> {
    let source = io::Error::from(Errno::ENODEV);
    Err(HostError::Dm {
        op,
        device: device.to_string(),
        source,
    })
}

type Link<'a> = Option<(&'a str, &'a str)>;

impl DeviceMapper for NoDm {
    fn create(&self, name: &str, _: &str) -> HostResult<DevNo> {
        absent("create", name)
    }
    fn load(&self, dev: DevNo, _: &[Target], _: bool) -> HostResult<()> {
        absent("load", dev)
    }
    fn discard(&self, dev: DevNo, _: Exposure) -> HostResult<()> {
        absent("discard", dev)
    }
    fn suspend(&self, dev: DevNo, _: SuspendMode) -> HostResult<()> {
        absent("suspend", dev)
    }
    fn resume(&self, _: DevNo, name: &str, _: Link<'_>, _: Exposure) -> HostResult<()> {
        absent("resume", name)
    }
    fn rename(
        &self,
        _: DevNo,
        from: &str,
        _: &str,
        _: Link<'_>,
        _: Link<'_>,
        _: Exposure,
    ) -> HostResult<()> {
        absent("rename", from)
    }
    fn remove(&self, _: DevNo, name: &str, _: Link<'_>) -> HostResult<()> {
        absent("remove", name)
    }
    fn by_uuid(&self, _: &str) -> HostResult<Option<DmDevice>> {
        Ok(None)
    }
    fn table(&self, dev: DevNo, _: bool) -> HostResult<Vec<Target>> {
        absent("table", dev)
    }
    fn list(&self) -> HostResult<Vec<DmEntry>> {
        Ok(Vec::new())
    }
    fn node(&self, dev: DevNo) -> HostResult<PathBuf> {
        absent("node", dev)
    }
    fn links(&self, _: DevNo, _: &str, _: (&str, &str)) -> HostResult<Vec<String>> {
        Ok(Vec::new())
    }
    fn mend_links(&self, dev: DevNo, _: &str, _: (&str, &str)) -> HostResult<()> {
        absent("links", dev)
    }
}
