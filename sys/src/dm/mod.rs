//! device-mapper: one method for each ioctl of `/dev/mapper/control`.

mod control;
pub mod reply;
mod request;
mod types;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use libc::c_ulong;
use nix::errno::Errno;

pub use types::{DmEntry, DmId, DmInfo, SuspendFlags, TargetLine, UdevFlags, Version};

use crate::{AlignedBuf, DevNo, bindings, ioctl};
use reply::ListedUuid;
use request::Header;

/// Buffer for calls that answer with a header only.
const SMALL: usize = 2 << 10;
/// First buffer for calls that answer with data.
const LARGE: usize = 16 << 10;
/// No reply is so long: 100 000 devices list in less.
const LIMIT: usize = 64 << 20;

/// An open `/dev/mapper/control`.
///
/// Calls from several threads at once are fine; the kernel orders them. Every
/// method fails with `EPERM` or `EACCES` without `CAP_SYS_ADMIN` in the initial
/// user namespace, and with `ENXIO` if the device it is about does not exist;
/// its own documentation names only the errors beyond these. Names that are too
/// long give `ENAMETOOLONG`, strings with a zero byte `EINVAL`.
#[derive(Debug)]
pub struct DmControl {
    file: File,
}

impl DmControl {
    /// Opens the control device; makes `/dev/mapper/control` if it is absent.
    ///
    /// # Errors
    /// `ENODEV` or `ENXIO` where the kernel has no device-mapper,
    /// [`Unsupported`](io::ErrorKind::Unsupported) if its interface is not
    /// version 4, and the errors of making the node.
    pub fn open() -> io::Result<Self> {
        let control = Self {
            file: control::open()?,
        };
        let (major, ..) = control.version()?;
        if major == bindings::DM_VERSION_MAJOR {
            Ok(control)
        } else {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Version of the kernel's interface (`DM_VERSION`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn version(&self) -> io::Result<Version> {
        let reply = self.call(bindings::REQ_DM_VERSION, &Header::default(), &[], SMALL)?;
        Ok(reply::version(&reply)?)
    }

    /// Makes a device without a table (`DM_DEV_CREATE`); an empty `uuid` means
    /// none. No event is sent before the first resume.
    ///
    /// # Errors
    /// `EBUSY` if the name or uuid is in use, `EINVAL` for a name with a slash.
    pub fn create(&self, name: &str, uuid: &str) -> io::Result<DmInfo> {
        let flags = bindings::DM_SKIP_BDGET_FLAG;
        self.command(
            bindings::REQ_DM_DEV_CREATE,
            &Header {
                name,
                uuid,
                flags,
                ..Header::default()
            },
        )
    }

    /// Removes a device and its tables (`DM_DEV_REMOVE`). Of the reply only
    /// name, uuid and `uevent_generated` mean something. For `event` see
    /// [`UdevFlags::event`].
    ///
    /// # Errors
    /// `EBUSY` while it is open; udev opens devices for a moment after each
    /// event.
    pub fn remove(&self, id: &DmId<'_>, event: u32) -> io::Result<DmInfo> {
        let header = Header {
            event_nr: event,
            ..Header::of(*id, bindings::DM_SKIP_BDGET_FLAG)
        };
        self.command(bindings::REQ_DM_DEV_REMOVE, &header)
    }

    /// Renames a device (`DM_DEV_RENAME`). The kernel takes the old name only,
    /// so that a uuid or number costs an [`info`](Self::info) first.
    ///
    /// # Errors
    /// `EBUSY` if the new name is in use, `EINVAL` if it is empty or has a
    /// slash.
    pub fn rename(&self, id: &DmId<'_>, new_name: &str, event: u32) -> io::Result<DmInfo> {
        let found;
        let name = match *id {
            DmId::Name(name) => name,
            DmId::Uuid(_) | DmId::Dev(_) => {
                found = self.info(id)?.ok_or(Errno::ENXIO)?.name;
                &found
            }
        };
        let header = Header {
            event_nr: event,
            ..Header::of(DmId::Name(name), 0)
        };
        let payload = request::terminated(new_name)?;
        let reply = self.call(bindings::REQ_DM_DEV_RENAME, &header, &payload, SMALL)?;
        // The kernel leaves the old name in its reply.
        Ok(DmInfo {
            name: new_name.to_owned(),
            ..reply::info(&reply)?
        })
    }

    /// Suspends a device (`DM_DEV_SUSPEND`): returns when no I/O is in flight,
    /// and holds back what comes until [`resume`](Self::resume). A device that
    /// is suspended already stays so. Starts again when a signal interrupts it.
    ///
    /// # Errors
    /// Those of freezing the file system.
    pub fn suspend(&self, id: &DmId<'_>, how: SuspendFlags) -> io::Result<DmInfo> {
        let mut flags = bindings::DM_SUSPEND_FLAG | bindings::DM_SKIP_BDGET_FLAG;
        if how.noflush {
            flags |= bindings::DM_NOFLUSH_FLAG;
        }
        if how.skip_lockfs {
            flags |= bindings::DM_SKIP_LOCKFS_FLAG;
        }
        loop {
            // Interrupted, the kernel undoes what it began.
            match self.command(bindings::REQ_DM_DEV_SUSPEND, &Header::of(*id, flags)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Makes the inactive table live, if there is one, and lets I/O go on
    /// (`DM_DEV_SUSPEND` without its flag). For `event` see
    /// [`UdevFlags::event`].
    ///
    /// A device that is not suspended is suspended by this call for the moment
    /// of the change, with its I/O flushed but no file system frozen: freezing
    /// takes as long as the file system's journal, and fails on one that is
    /// frozen already.
    ///
    /// # Errors
    /// `EINVAL` if the table cannot go live, e.g. because it does not fit the
    /// queue limits; the device then is as before.
    pub fn resume(&self, id: &DmId<'_>, event: u32) -> io::Result<DmInfo> {
        let header = Header {
            event_nr: event,
            ..Header::of(*id, bindings::DM_SKIP_LOCKFS_FLAG)
        };
        self.command(bindings::REQ_DM_DEV_SUSPEND, &header)
    }

    /// Loads a table into the inactive slot, in place of one that is there
    /// (`DM_TABLE_LOAD`).
    ///
    /// # Errors
    /// `EINVAL` for parameters that the target refuses or lines with gaps (the
    /// kernel's log says why), `ENODEV`, `EBUSY` for a device that cannot be
    /// opened, `ENOMEM`, `E2BIG` for a table of more than 4 GiB.
    pub fn load(
        &self,
        id: &DmId<'_>,
        targets: &[TargetLine],
        read_only: bool,
    ) -> io::Result<DmInfo> {
        let mut flags = bindings::DM_SKIP_BDGET_FLAG;
        if read_only {
            flags |= bindings::DM_READONLY_FLAG;
        }
        let target_count =
            u32::try_from(targets.len()).map_err(|_| io::Error::from(Errno::E2BIG))?;
        let header = Header {
            target_count,
            ..Header::of(*id, flags)
        };
        let payload = request::table(targets)?;
        let reply = self.call(bindings::REQ_DM_TABLE_LOAD, &header, &payload, SMALL)?;
        Ok(reply::info(&reply)?)
    }

    /// Drops the inactive table (`DM_TABLE_CLEAR`).
    ///
    /// # Errors
    /// Those of every method.
    pub fn clear(&self, id: &DmId<'_>) -> io::Result<DmInfo> {
        self.command(bindings::REQ_DM_TABLE_CLEAR, &Header::of(*id, 0))
    }

    /// Describes a device (`DM_DEV_STATUS`); `None` if there is no such device.
    ///
    /// # Errors
    /// Those of every method, except `ENXIO`.
    pub fn info(&self, id: &DmId<'_>) -> io::Result<Option<DmInfo>> {
        match self.command(bindings::REQ_DM_DEV_STATUS, &Header::of(*id, 0)) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            result => result.map(Some),
        }
    }

    /// The live table, or the inactive one (`DM_TABLE_STATUS`); no lines if
    /// there is no such table.
    ///
    /// # Errors
    /// Those of every method.
    pub fn table(&self, id: &DmId<'_>, inactive: bool) -> io::Result<Vec<TargetLine>> {
        let mut flags = bindings::DM_STATUS_TABLE_FLAG;
        if inactive {
            flags |= bindings::DM_QUERY_INACTIVE_TABLE_FLAG;
        }
        self.lines(id, flags)
    }

    /// The live table's status (`DM_TABLE_STATUS`). Without `noflush` a thin
    /// pool commits its metadata first and the numbers are exact.
    ///
    /// # Errors
    /// Those of every method.
    pub fn status(&self, id: &DmId<'_>, noflush: bool) -> io::Result<Vec<TargetLine>> {
        self.lines(
            id,
            if noflush {
                bindings::DM_NOFLUSH_FLAG
            } else {
                0
            },
        )
    }

    fn lines(&self, id: &DmId<'_>, flags: u32) -> io::Result<Vec<TargetLine>> {
        let header = Header::of(*id, flags);
        let reply = self.call(bindings::REQ_DM_TABLE_STATUS, &header, &[], LARGE)?;
        Ok(reply::targets(&reply)?)
    }

    /// Every device, in no particular order (`DM_LIST_DEVICES`). One call where
    /// the kernel tells uuids (interface 4.45, Linux 5.13); before, one more for
    /// each device, and devices that vanish meanwhile are left out.
    ///
    /// # Errors
    /// Those of every method.
    pub fn list(&self) -> io::Result<Vec<DmEntry>> {
        let header = Header {
            flags: bindings::DM_UUID_FLAG,
            ..Header::default()
        };
        let reply = self.call(bindings::REQ_DM_LIST_DEVICES, &header, &[], LARGE)?;
        let mut entries = Vec::new();
        for (mut entry, uuid) in reply::devices(&reply)? {
            if uuid == ListedUuid::NotTold {
                let Some(info) = self.info(&DmId::Dev(entry.dev))? else {
                    continue;
                };
                entry.uuid = (!info.uuid.is_empty()).then_some(info.uuid);
                entry.event_nr = info.event_nr;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// The devices that the live table uses (`DM_TABLE_DEPS`).
    ///
    /// # Errors
    /// Those of every method.
    pub fn deps(&self, id: &DmId<'_>) -> io::Result<Vec<DevNo>> {
        let reply = self.call(bindings::REQ_DM_TABLE_DEPS, &Header::of(*id, 0), &[], LARGE)?;
        Ok(reply::deps(&reply)?)
    }

    /// Sends a message to the target at `sector` (`DM_TARGET_MSG`) and returns
    /// its answer, if it has one. An answer of more than 16 KiB makes the
    /// message be sent again.
    ///
    /// # Errors
    /// Whatever the target says; `EINVAL` if it knows no such message or the
    /// device has no live table.
    pub fn message(&self, id: &DmId<'_>, sector: u64, text: &str) -> io::Result<Option<String>> {
        let payload = request::message(sector, text)?;
        let header = Header::of(*id, 0);
        let reply = self.call(bindings::REQ_DM_TARGET_MSG, &header, &payload, LARGE)?;
        Ok(reply::message(&reply)?)
    }

    /// The kinds of targets that the kernel has at hand, with their versions
    /// (`DM_LIST_VERSIONS`). Kinds whose module is not loaded yet are missing.
    ///
    /// # Errors
    /// Those of every method.
    pub fn target_versions(&self) -> io::Result<Vec<(String, Version)>> {
        let header = Header::default();
        let reply = self.call(bindings::REQ_DM_LIST_VERSIONS, &header, &[], LARGE)?;
        Ok(reply::target_versions(&reply)?)
    }

    /// Arms this descriptor (`DM_DEV_ARM_POLL`): it polls readable from the next
    /// event of any device on, until armed again. Arm, then compare the event
    /// numbers of [`list`](Self::list), then poll, and no event is lost.
    ///
    /// # Errors
    /// `ENOTTY` before interface 4.37.
    pub fn arm_poll(&self) -> io::Result<()> {
        self.call(
            bindings::REQ_DM_DEV_ARM_POLL,
            &Header::default(),
            &[],
            SMALL,
        )
        .map(drop)
    }

    /// A call that passes nothing but the header and gets the header back.
    fn command(&self, request: c_ulong, header: &Header<'_>) -> io::Result<DmInfo> {
        Ok(reply::info(&self.call(request, header, &[], SMALL)?)?)
    }

    /// Makes a call, again with twice the room as often as the reply does not
    /// fit.
    fn call(
        &self,
        request: c_ulong,
        header: &Header<'_>,
        payload: &[u8],
        room: usize,
    ) -> io::Result<AlignedBuf> {
        let mut room = room;
        loop {
            let mut buf = request::encode(header, payload, room)?;
            // SAFETY: every device-mapper request takes a dm_ioctl whose
            // data_size bounds what the kernel reads and writes; `encode` sets
            // it to the buffer's length, which is at least a dm_ioctl's, and
            // the buffer is aligned for one.
            unsafe { ioctl::with_pointer(self.as_fd(), request, buf.as_mut_ptr()) }?;
            if !reply::buffer_full(&buf)? {
                return Ok(buf);
            }
            room = buf.len().saturating_mul(2);
            if room > LIMIT {
                return Err(Errno::ENOBUFS.into());
            }
        }
    }
}

/// For poll(2), see [`DmControl::arm_poll`].
impl AsFd for DmControl {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
