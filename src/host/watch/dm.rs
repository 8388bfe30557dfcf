//! device-mapper with a note of every call.

use std::path::PathBuf;
use std::sync::Arc;

use lvm2::tables::{DevNo, Target};

use super::Calls;
use crate::host::{DeviceMapper, DmDevice, DmEntry, Exposure, HostResult, SuspendMode};

/// The kernel's device-mapper.
pub(super) struct Mapper {
    inner: Arc<dyn DeviceMapper>,
    calls: Arc<Calls>,
}

impl Mapper {
    pub(super) fn new(inner: Arc<dyn DeviceMapper>, calls: Arc<Calls>) -> Self {
        Self { inner, calls }
    }

    fn by_number<T>(&self, op: &'static str, dev: DevNo, call: impl FnOnce() -> T) -> T {
        self.calls.during(op, dev.to_string().into(), call)
    }
}

impl DeviceMapper for Mapper {
    fn create(&self, name: &str, uuid: &str) -> HostResult<DevNo> {
        self.calls.during("DM_DEV_CREATE", name.into(), || {
            self.inner.create(name, uuid)
        })
    }

    fn load(&self, dev: DevNo, table: &[Target], read_only: bool) -> HostResult<()> {
        self.by_number("DM_TABLE_LOAD", dev, || {
            self.inner.load(dev, table, read_only)
        })
    }

    fn discard(&self, dev: DevNo, exposure: Exposure) -> HostResult<()> {
        self.by_number("discard", dev, || self.inner.discard(dev, exposure))
    }

    fn suspend(&self, dev: DevNo, mode: SuspendMode) -> HostResult<()> {
        self.by_number("suspend", dev, || self.inner.suspend(dev, mode))
    }

    fn resume(
        &self,
        dev: DevNo,
        name: &str,
        vg_lv: Option<(&str, &str)>,
        exposure: Exposure,
    ) -> HostResult<()> {
        self.calls.during("resume", name.into(), || {
            self.inner.resume(dev, name, vg_lv, exposure)
        })
    }

    fn rename(
        &self,
        dev: DevNo,
        from: &str,
        to: &str,
        old: Option<(&str, &str)>,
        new: Option<(&str, &str)>,
        exposure: Exposure,
    ) -> HostResult<()> {
        self.calls.during("DM_DEV_RENAME", from.into(), || {
            self.inner.rename(dev, from, to, old, new, exposure)
        })
    }

    fn remove(&self, dev: DevNo, name: &str, vg_lv: Option<(&str, &str)>) -> HostResult<()> {
        self.calls.during("DM_DEV_REMOVE", name.into(), || {
            self.inner.remove(dev, name, vg_lv)
        })
    }

    fn by_uuid(&self, uuid: &str) -> HostResult<Option<DmDevice>> {
        self.calls
            .during("DM_DEV_STATUS", uuid.into(), || self.inner.by_uuid(uuid))
    }

    fn table(&self, dev: DevNo, inactive: bool) -> HostResult<Vec<Target>> {
        self.by_number("DM_TABLE_STATUS", dev, || self.inner.table(dev, inactive))
    }

    fn list(&self) -> HostResult<Vec<DmEntry>> {
        self.calls
            .during("DM_LIST_DEVICES", "device-mapper".into(), || {
                self.inner.list()
            })
    }

    fn links(&self, dev: DevNo, name: &str, vg_lv: (&str, &str)) -> HostResult<Vec<String>> {
        self.by_number("links", dev, || self.inner.links(dev, name, vg_lv))
    }

    fn mend_links(&self, dev: DevNo, name: &str, vg_lv: (&str, &str)) -> HostResult<()> {
        self.by_number("links", dev, || self.inner.mend_links(dev, name, vg_lv))
    }

    fn node(&self, dev: DevNo) -> HostResult<PathBuf> {
        self.by_number("node", dev, || self.inner.node(dev))
    }
}
