//! device-mapper: named devices with an active and an inactive table.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use lvm2::tables::{DevNo, Target};

use super::fault::CallKind;
use super::machine::{Process, State};
use super::table::Line;
use crate::host::{DeviceMapper, DmDevice, DmEntry, Exposure, HostError, HostResult, SuspendMode};

/// Driver number of device-mapper devices.
pub(super) const MAJOR: u32 = 253;
const ENXIO: i32 = 6;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;

/// A device-mapper device.
pub(super) struct Mapped {
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) read_only: bool,
    pub(super) suspended: bool,
    pub(super) active: Option<Vec<Line>>,
    /// The loaded table and whether it makes the device read-only.
    inactive: Option<(Vec<Line>, bool)>,
    /// Paths in `/dev` that lead here, beside the node itself.
    pub(super) links: Vec<String>,
}

impl Mapped {
    /// Size in bytes; 0 without a table.
    pub(super) fn size(&self) -> u64 {
        let last = self.active.as_ref().and_then(|lines| lines.last());
        last.map_or(0, |line| line.start + line.len)
    }

    /// Devices of the active table.
    pub(super) fn below(&self) -> BTreeSet<DevNo> {
        self.active.iter().flatten().flat_map(Line::below).collect()
    }

    /// Whether one of the tables keeps `dev` open.
    pub(super) fn holds(&self, dev: DevNo) -> bool {
        let inactive = self.inactive.iter().flat_map(|(lines, _)| lines);
        self.active
            .iter()
            .flatten()
            .chain(inactive)
            .flat_map(Line::below)
            .any(|d| d == dev)
    }

    fn describe(&self, dev: DevNo, open_count: u32) -> DmDevice {
        DmDevice {
            dev,
            name: self.name.clone(),
            uuid: self.uuid.clone(),
            open_count,
            suspended: self.suspended,
            read_only: self.read_only,
            active_table: self.active.is_some(),
            inactive_table: self.inactive.is_some(),
        }
    }

    fn link(&mut self, vg_lv: Option<(&str, &str)>, exposure: Exposure) {
        self.links = vec![format!("/dev/mapper/{}", self.name)];
        if let (Some((vg, lv)), true) = (vg_lv, exposure != Exposure::Hidden) {
            self.links.push(format!("/dev/{vg}/{lv}"));
        }
    }
}

fn failed(op: &'static str, device: impl ToString, source: io::Error) -> HostError {
    HostError::Dm {
        op,
        device: device.to_string(),
        source,
    }
}

fn errno(op: &'static str, device: impl ToString, number: i32) -> HostError {
    failed(op, device, io::Error::from_raw_os_error(number))
}

impl State {
    fn mapped_mut(&mut self, op: &'static str, dev: DevNo) -> HostResult<&mut Mapped> {
        self.mapped
            .get_mut(&dev)
            .ok_or_else(|| errno(op, dev, ENXIO))
    }

    fn mapped_ref(&self, op: &'static str, dev: DevNo) -> HostResult<&Mapped> {
        self.mapped.get(&dev).ok_or_else(|| errno(op, dev, ENXIO))
    }

    /// Whether I/O to `from` ends up in `to`.
    fn reaches(&self, from: DevNo, to: DevNo) -> bool {
        let mut below = self
            .mapped
            .get(&from)
            .map(Mapped::below)
            .unwrap_or_default()
            .into_iter();
        from == to || below.any(|below| self.reaches(below, to))
    }

    /// Devices other than LVs are candidates for PVs.
    fn mapped_changed(&mut self, uuid: &str) {
        if !uuid.starts_with("LVM-") {
            self.generation += 1;
        }
    }
}

impl DeviceMapper for Process {
    fn create(&self, name: &str, uuid: &str) -> HostResult<DevNo> {
        let entered = self.enter(CallKind::DmCreate, name, 0, 0);
        let mut state = entered.map_err(|e| failed("create", name, e))?.state;
        if name.is_empty() || name.len() > 127 || uuid.len() > 128 {
            return Err(errno("create", name, EINVAL));
        }
        let taken = |m: &Mapped| m.name == name || (!uuid.is_empty() && m.uuid == uuid);
        if state.mapped.values().any(taken) {
            return Err(errno("create", name, EBUSY));
        }
        let free = (0..).find(|minor| {
            !state.mapped.contains_key(&DevNo {
                major: MAJOR,
                minor: *minor,
            })
        });
        let dev = DevNo {
            major: MAJOR,
            minor: free.unwrap_or(u32::MAX),
        };
        let mapped = Mapped {
            name: name.to_owned(),
            uuid: uuid.to_owned(),
            read_only: false,
            suspended: false,
            active: None,
            inactive: None,
            links: Vec::new(),
        };
        state.mapped.insert(dev, mapped);
        state.mapped_changed(uuid);
        Ok(dev)
    }

    fn load(&self, dev: DevNo, table: &[Target], read_only: bool) -> HostResult<()> {
        let entered = self.enter(CallKind::DmLoad, dev.to_string(), 0, 0);
        let mut state = entered.map_err(|e| failed("load", dev, e))?.state;
        let name = state.mapped_ref("load", dev)?.name.clone();
        let lines = state
            .read_table(table)
            .map_err(|e| failed("load", &name, e))?;
        if lines
            .iter()
            .flat_map(Line::below)
            .any(|below| state.reaches(below, dev))
        {
            return Err(errno("load", name, EINVAL));
        }
        state.mapped_mut("load", dev)?.inactive = Some((lines, read_only));
        Ok(())
    }

    fn discard(&self, dev: DevNo, _exposure: Exposure) -> HostResult<()> {
        let entered = self.enter(CallKind::DmDiscard, dev.to_string(), 0, 0);
        let mut state = entered.map_err(|e| failed("discard", dev, e))?.state;
        let mapped = state.mapped_mut("discard", dev)?;
        if mapped.suspended && mapped.inactive.is_some() {
            let read_only = mapped.read_only;
            mapped.inactive = mapped.active.clone().map(|lines| (lines, read_only));
        } else {
            mapped.inactive = None;
        }
        Ok(())
    }

    fn suspend(&self, dev: DevNo, _mode: SuspendMode) -> HostResult<()> {
        let entered = self.enter(CallKind::DmSuspend, dev.to_string(), 0, 0);
        let mut state = entered.map_err(|e| failed("suspend", dev, e))?.state;
        state.mapped_mut("suspend", dev)?.suspended = true;
        Ok(())
    }

    fn resume(
        &self,
        dev: DevNo,
        name: &str,
        vg_lv: Option<(&str, &str)>,
        exposure: Exposure,
    ) -> HostResult<()> {
        let entered = self.enter(CallKind::DmResume, name, 0, 0);
        let mut state = entered.map_err(|e| failed("resume", name, e))?.state;
        let mapped = state.mapped_mut("resume", dev)?;
        if let Some((lines, read_only)) = mapped.inactive.take() {
            mapped.active = Some(lines).filter(|lines| !lines.is_empty());
            mapped.read_only = read_only;
        } else if mapped.suspended && mapped.active.is_none() {
            return Err(errno("resume", name, EINVAL));
        }
        mapped.suspended = false;
        mapped.link(vg_lv, exposure);
        let uuid = mapped.uuid.clone();
        state.mapped_changed(&uuid);
        self.machine.changed.notify_all();
        Ok(())
    }

    fn rename(
        &self,
        dev: DevNo,
        from: &str,
        to: &str,
        _old: Option<(&str, &str)>,
        new: Option<(&str, &str)>,
        exposure: Exposure,
    ) -> HostResult<()> {
        let entered = self.enter(CallKind::DmRename, from, 0, 0);
        let mut state = entered.map_err(|e| failed("rename", from, e))?.state;
        state.mapped_ref("rename", dev)?;
        if state.mapped.values().any(|mapped| mapped.name == to) {
            return Err(errno("rename", from, EBUSY));
        }
        let mapped = state.mapped_mut("rename", dev)?;
        to.clone_into(&mut mapped.name);
        mapped.link(new, exposure);
        Ok(())
    }

    fn remove(&self, dev: DevNo, name: &str, _vg_lv: Option<(&str, &str)>) -> HostResult<()> {
        let entered = self.enter(CallKind::DmRemove, name, 0, 0);
        let mut state = entered.map_err(|e| failed("remove", name, e))?.state;
        let uuid = state.mapped_ref("remove", dev)?.uuid.clone();
        let open_count = state.open_count(dev);
        if open_count > 0 {
            return Err(HostError::Busy {
                device: name.to_owned(),
                open_count,
            });
        }
        state.mapped.remove(&dev);
        state.mapped_changed(&uuid);
        Ok(())
    }

    fn by_uuid(&self, uuid: &str) -> HostResult<Option<DmDevice>> {
        let entered = self.enter(CallKind::DmByUuid, uuid, 0, 0);
        let state = entered.map_err(|e| failed("status", uuid, e))?.state;
        let found = state.mapped.iter().find(|(_, mapped)| mapped.uuid == uuid);
        Ok(found.map(|(dev, mapped)| mapped.describe(*dev, state.open_count(*dev))))
    }

    fn table(&self, dev: DevNo, inactive: bool) -> HostResult<Vec<Target>> {
        let entered = self.enter(CallKind::DmTable, dev.to_string(), 0, 0);
        let state = entered.map_err(|e| failed("table", dev, e))?.state;
        let mapped = state.mapped_ref("table", dev)?;
        let lines = match inactive {
            true => mapped.inactive.as_ref().map(|(lines, _)| lines),
            false => mapped.active.as_ref(),
        };
        Ok(lines.into_iter().flatten().map(Line::print).collect())
    }

    fn list(&self) -> HostResult<Vec<DmEntry>> {
        let entered = self.enter(CallKind::DmList, "", 0, 0);
        let state = entered.map_err(|e| failed("list", "devices", e))?.state;
        let entry = |(dev, mapped): (&DevNo, &Mapped)| DmEntry {
            dev: *dev,
            name: mapped.name.clone(),
            uuid: mapped.uuid.clone(),
        };
        Ok(state.mapped.iter().map(entry).collect())
    }

    fn links(&self, dev: DevNo, name: &str, vg_lv: (&str, &str)) -> HostResult<Vec<String>> {
        let entered = self.enter(CallKind::DmNode, dev.to_string(), 0, 0);
        let state = entered.map_err(|e| failed("links", dev, e))?.state;
        let links = &state.mapped_ref("links", dev)?.links;
        let wanted = [
            format!("/dev/mapper/{name}"),
            format!("/dev/{}/{}", vg_lv.0, vg_lv.1),
        ];
        Ok(wanted
            .into_iter()
            .filter(|link| !links.contains(link))
            .map(|link| format!("{link} is missing"))
            .collect())
    }

    fn mend_links(&self, dev: DevNo, _name: &str, vg_lv: (&str, &str)) -> HostResult<()> {
        let entered = self.enter(CallKind::DmNode, dev.to_string(), 0, 0);
        let mut state = entered.map_err(|e| failed("links", dev, e))?.state;
        let mapped = state.mapped_mut("links", dev)?;
        mapped.link(Some(vg_lv), Exposure::Visible);
        Ok(())
    }

    fn node(&self, dev: DevNo) -> HostResult<PathBuf> {
        let entered = self.enter(CallKind::DmNode, dev.to_string(), 0, 0);
        let state = entered.map_err(|e| failed("node", dev, e))?.state;
        state.mapped_ref("node", dev)?;
        Ok(state.node(dev))
    }
}
