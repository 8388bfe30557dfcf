//! What calls were made, and which of them shall fail.

use std::io;

/// A host call, as the log and the fault rules name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// List of block devices.
    Discover,
    /// Opening a device, by number or path.
    Open,
    /// Read of a device.
    Read,
    /// Write to a device.
    Write,
    /// Zeroing of a range.
    Zero,
    /// Discard of a range.
    Discard,
    /// Flush of a device.
    Flush,
    /// device-mapper: new device.
    DmCreate,
    /// device-mapper: table into the inactive slot.
    DmLoad,
    /// device-mapper: inactive table dropped.
    DmDiscard,
    /// device-mapper: suspend.
    DmSuspend,
    /// device-mapper: resume.
    DmResume,
    /// device-mapper: rename.
    DmRename,
    /// device-mapper: remove.
    DmRemove,
    /// device-mapper: look-up by uuid.
    DmByUuid,
    /// device-mapper: table read.
    DmTable,
    /// device-mapper: list of devices.
    DmList,
    /// device-mapper: node of a device.
    DmNode,
    /// Taking a lock.
    Lock,
    /// Looking for signatures.
    Probe,
    /// mkfs.
    Make,
    /// fsck.
    Check,
    /// Mount of a file system.
    Mount,
    /// Bind mount of a device node.
    Bind,
    /// Unmount.
    Unmount,
    /// Mount table.
    Mounts,
    /// Growing a file system.
    Grow,
    /// Space of a file system.
    Usage,
    /// Making a directory or file.
    MakePath,
    /// Removing a directory or file.
    RemovePath,
    /// Looking at a path.
    KindOf,
    /// Looking at a device that shall become a PV.
    Examine,
    /// Looking for every signature.
    Signatures,
    /// Invalidating lvm2's hints.
    Hints,
    /// Entries of lvm2's devices file.
    DevicesFile,
    /// lvm2's notes about PVs that are online.
    Online,
    /// Copy of metadata: new file under a temporary name.
    CopyStage,
    /// Copy of metadata: rename to its name.
    CopyPublish,
    /// Copy of metadata: directory made durable.
    CopySync,
    /// Copy of metadata: list of a directory.
    CopyList,
    /// Copy of metadata: read.
    CopyRead,
    /// Copy of metadata: removed.
    CopyRemove,
}

impl CallKind {
    /// Whether the call changes what a later run finds: disks, device-mapper,
    /// mounts or files. Crash tests stop at these.
    #[must_use]
    pub fn changes(self) -> bool {
        !matches!(
            self,
            Self::Discover
                | Self::Open
                | Self::Read
                | Self::DmByUuid
                | Self::DmTable
                | Self::DmList
                | Self::DmNode
                | Self::Lock
                | Self::Probe
                | Self::Mounts
                | Self::Usage
                | Self::KindOf
                | Self::Examine
                | Self::Signatures
                | Self::CopyList
                | Self::CopyRead
        )
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was called.
    pub kind: CallKind,
    /// Node, dm name or uuid, lock name or path.
    pub object: String,
    /// Byte offset, for I/O.
    pub offset: u64,
    /// Bytes, for I/O.
    pub len: u64,
}

/// How a call shall fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens; the answer is EIO.
    Eio,
    /// Nothing happens; the answer is ENOSPC.
    Enospc,
    /// A write puts down its first half, in whole blocks, and answers EIO.
    /// Other calls fail as with [`Fault::Eio`].
    ShortWrite,
    /// A write does its work and answers EIO all the same: the caller cannot
    /// know. Other calls fail as with [`Fault::Eio`].
    LostAnswer,
    /// The call does not return before
    /// [`SimHost::unhang`](super::SimHost::unhang); then it goes on as usual.
    Hang,
    /// The process dies before the call: nothing happens, its locks and open
    /// files go, and all of its calls from now on fail with EIO.
    Crash,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        const ENOSPC: i32 = 28;
        match self {
            Self::Enospc => io::Error::from_raw_os_error(ENOSPC),
            _ => eio(),
        }
    }
}

pub(super) fn eio() -> io::Error {
    const EIO: i32 = 5;
    io::Error::from_raw_os_error(EIO)
}

enum Rule {
    /// The call of this number, counted from 0.
    Number(u64),
    /// This call and all later ones of the kind, on this object or any.
    From(u64, CallKind, Option<String>),
    /// The call of this kind after so many more of it.
    Nth(CallKind, u64),
    /// Every call of the kind (or any) on this object.
    Object(Option<CallKind>, String),
}

/// Call log and fault rules.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) calls: Vec<Call>,
    rules: Vec<(Rule, Fault)>,
    /// Hanging calls return when this has grown past its value at their start.
    pub(super) releases: u64,
    /// Calls that hang now.
    pub(super) hanging: usize,
}

impl Faults {
    /// Logs the call and says how it shall fail.
    pub(super) fn enter(&mut self, call: Call) -> Option<Fault> {
        let number = self.calls.len() as u64;
        let mut found = None;
        self.rules.retain_mut(|(rule, fault)| {
            let (hit, used) = match rule {
                Rule::Number(n) => (*n == number, *n <= number),
                Rule::From(n, kind, object) => {
                    let here = object.as_ref().is_none_or(|object| *object == call.object);
                    (*n <= number && *kind == call.kind && here, false)
                }
                Rule::Nth(kind, _) if *kind != call.kind => (false, false),
                Rule::Nth(_, left) => {
                    let hit = *left == 0;
                    *left = left.saturating_sub(1);
                    (hit, hit)
                }
                Rule::Object(kind, object) => (
                    *object == call.object && kind.is_none_or(|k| k == call.kind),
                    false,
                ),
            };
            if hit && found.is_none() {
                found = Some(*fault);
            }
            !used
        });
        self.calls.push(call);
        found
    }

    pub(super) fn at(&mut self, number: u64, fault: Fault) {
        self.rules.push((Rule::Number(number), fault));
    }

    pub(super) fn from(&mut self, number: u64, kind: CallKind, object: Option<&str>, fault: Fault) {
        let rule = Rule::From(number, kind, object.map(str::to_owned));
        self.rules.push((rule, fault));
    }

    pub(super) fn on(&mut self, kind: CallKind, nth: u64, fault: Fault) {
        self.rules.push((Rule::Nth(kind, nth), fault));
    }

    pub(super) fn always(&mut self, kind: Option<CallKind>, object: &str, fault: Fault) {
        self.rules
            .push((Rule::Object(kind, object.to_owned()), fault));
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(kind: CallKind, object: &str) -> Call {
        Call {
            kind,
            object: object.to_owned(),
            offset: 0,
            len: 0,
        }
    }

    #[test]
    fn a_number_hits_once() {
        let mut faults = Faults::default();
        faults.at(1, Fault::Eio);
        let hits: Vec<_> = (0..3)
            .map(|_| faults.enter(call(CallKind::Read, "a")))
            .collect();
        assert_eq!(hits, [None, Some(Fault::Eio), None]);
        assert_eq!(faults.calls.len(), 3);
    }

    #[test]
    fn a_kind_counts_its_own_calls_only() {
        let mut faults = Faults::default();
        faults.on(CallKind::Write, 1, Fault::Enospc);
        let kinds = [
            CallKind::Write,
            CallKind::Read,
            CallKind::Write,
            CallKind::Write,
        ];
        let hits: Vec<_> = kinds
            .into_iter()
            .map(|k| faults.enter(call(k, "a")))
            .collect();
        assert_eq!(hits, [None, None, Some(Fault::Enospc), None]);
    }

    #[test]
    fn an_object_stays_broken_until_cleared() {
        let mut faults = Faults::default();
        faults.always(Some(CallKind::Read), "a", Fault::Eio);
        assert_eq!(faults.enter(call(CallKind::Write, "a")), None);
        assert_eq!(faults.enter(call(CallKind::Read, "b")), None);
        assert_eq!(faults.enter(call(CallKind::Read, "a")), Some(Fault::Eio));
        assert_eq!(faults.enter(call(CallKind::Read, "a")), Some(Fault::Eio));
        faults.clear();
        assert_eq!(faults.enter(call(CallKind::Read, "a")), None);
    }
}
