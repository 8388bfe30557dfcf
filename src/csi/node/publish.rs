//! NodePublishVolume.

use std::path::{Path, PathBuf};

use lvm2::name::Tag;

use crate::engine::{LvState, Request, tags};
use crate::error::Kind;
use crate::host::{FsKind, MountEntry};

use super::super::capability::{Access, Capability, Sharing, filesystem};
use super::super::context;
use super::super::driver::{Driver, required};
use super::super::proto::{NodePublishVolumeRequest, NodePublishVolumeResponse};
use super::super::status::{CsiError, OfVolume};
use super::super::volume::has_tag;
use super::format::{Action, decide};
use super::mounted::{at, is_filesystem, is_node, is_read_only, is_superblock_read_only};
use super::{blank, target};

/// A volume on its way to a path.
struct Publication<'a> {
    driver: &'a Driver,
    lv: LvState,
    node: PathBuf,
    target: PathBuf,
    read_only: bool,
    sharing: Sharing,
    mounts: Vec<MountEntry>,
}

/// Makes the volume appear at the target path.
pub(super) fn publish(
    driver: &Driver,
    request: &NodePublishVolumeRequest,
) -> Result<NodePublishVolumeResponse, CsiError> {
    let capability = Capability::of(request.volume_capability.as_ref())?;
    let host = driver.engine.host();
    let target = target::target(required("target_path", &request.target_path)?)?;
    let target = host.fs.resolve(&target).of_volume(&request.volume_id)?;
    if let Some(cluster) = &driver.cluster
        && let Some(reason) = cluster.objection(&request.volume_id)
    {
        return Err(CsiError::Objection {
            volume: request.volume_id.clone(),
            reason,
        });
    }
    let lv = driver.usable(&request.volume_id)?;
    if let Some(made) = tags::value(&lv.tags, tags::ACCESS)
        && made != capability.access.word()
    {
        let (volume, made) = (request.volume_id.clone(), made.to_owned());
        return Err(CsiError::WrongAccess {
            volume,
            made,
            asked: capability.access.word(),
        });
    }
    let (mut lv, node) = activate(driver, lv)?;
    if tags::value(&lv.tags, tags::ACCESS).is_none() || has_tag(&lv, tags::USE_UNKNOWN) {
        lv.tags = remember_access(driver, &lv, capability.access.word());
    }
    let mounts = host.fs.mounts().of_volume(&request.volume_id)?;
    let publication = Publication {
        driver,
        lv,
        node,
        target,
        read_only: request.readonly || capability.access.is_read_only(),
        sharing: capability.sharing,
        mounts,
    };
    match capability.access {
        Access::Block => publication.block()?,
        Access::Mount { fs, flags } => {
            let fs = fs.or(filesystem(context::fs_type(&request.volume_context))?);
            publication.mount(fs, flags, &context::format_options(&request.volume_context))?;
        }
    }
    Ok(NodePublishVolumeResponse {})
}

/// Notes on an LV, made by somebody who could not say what for, what it is used
/// for, and returns its tags. From now on it is known whether what the LV grows
/// by must be zeroed; where it cannot be noted, that is done.
fn remember_access(driver: &Driver, lv: &LvState, access: &'static str) -> Vec<String> {
    let request = Request::Tags {
        name: lv.name.clone(),
        add: tags::with_value(tags::ACCESS, access).into_iter().collect(),
        remove: Tag::new(tags::USE_UNKNOWN).into_iter().collect(),
    };
    match driver.engine.submit(&lv.vg, request).wait() {
        Ok(tagged) => tagged.tags,
        Err(error) => {
            tracing::warn!(volume = %lv.name, access, %error, "the use of the volume is not noted");
            lv.tags.clone()
        }
    }
}

/// The volume with its device, which is made to appear if it is not there.
pub(super) fn activate(driver: &Driver, lv: LvState) -> Result<(LvState, PathBuf), CsiError> {
    let volume = lv.name.to_string();
    let lv = if lv.node.is_some() && lv.dev.is_some() {
        lv
    } else {
        let activate = Request::Activate {
            name: lv.name.clone(),
        };
        driver
            .engine
            .submit(&lv.vg, activate)
            .wait()
            .of_volume(&volume)?
    };
    match (lv.node.clone(), lv.dev) {
        (Some(node), Some(_)) => Ok((lv, node)),
        _ => Err(CsiError::NoDevice { volume }),
    }
}

impl Publication<'_> {
    fn volume(&self) -> String {
        self.lv.name.to_string()
    }

    fn occupied(&self, detail: &'static str) -> CsiError {
        let path = self.target.display().to_string();
        CsiError::Occupied {
            volume: self.volume(),
            path,
            detail,
        }
    }

    /// Whether the volume is at the target already, by `is_ours`; an error if
    /// something else is, or the volume in another way.
    fn already(&self, is_ours: fn(&MountEntry, &LvState) -> bool) -> Result<bool, CsiError> {
        match at(&self.mounts, &self.target) {
            None => Ok(false),
            Some(entry) if !is_ours(entry, &self.lv) => {
                Err(self.occupied("something else is mounted there"))
            }
            Some(entry) if is_read_only(entry) != self.read_only => {
                Err(self.occupied("the volume is mounted there, but readonly differs"))
            }
            Some(_) => Ok(true),
        }
    }

    /// Another place where the volume is in use, if it may be in use at two.
    fn beside(
        &self,
        is_ours: fn(&MountEntry, &LvState) -> bool,
    ) -> Result<Option<&MountEntry>, CsiError> {
        let Some(other) = self.mounts.iter().find(|entry| is_ours(entry, &self.lv)) else {
            return Ok(None);
        };
        let allowed = match self.sharing {
            Sharing::One => false,
            Sharing::Many => true,
            Sharing::Volume => has_tag(&self.lv, tags::SHARED),
        };
        if allowed {
            return Ok(Some(other));
        }
        Err(CsiError::PublishedElsewhere {
            volume: self.volume(),
            at: other.target.display().to_string(),
        })
    }

    fn block(&self) -> Result<(), CsiError> {
        if self.already(is_node)? {
            return Ok(());
        }
        self.beside(is_node)?;
        let fs = &self.driver.engine.host().fs;
        self.at_target(false, |target| fs.bind(&self.node, target, self.read_only))
    }

    fn mount(
        &self,
        wanted: Option<FsKind>,
        mut flags: Vec<String>,
        format_options: &[String],
    ) -> Result<(), CsiError> {
        if self.already(is_filesystem)? {
            return Ok(());
        }
        if self.read_only && !flags.iter().any(|flag| flag == "ro") {
            flags.push("ro".to_owned());
        }
        let fs = &self.driver.engine.host().fs;
        match self.beside(is_filesystem)? {
            None => {
                let kind = self.prepare(wanted, format_options)?;
                self.at_target(true, |target| fs.mount(&self.node, target, kind, &flags))
            }
            Some(other) if !self.read_only && is_superblock_read_only(other) => {
                let at = other.target.display().to_string();
                Err(CsiError::ReadOnlyElsewhere {
                    volume: self.volume(),
                    at,
                })
            }
            // One file system cannot be mounted read-only and for writing;
            // a bind of a mount can be read-only.
            Some(other) if self.read_only && !is_superblock_read_only(other) => {
                self.at_target(true, |target| fs.bind(&other.target, target, true))
            }
            Some(other) => {
                let kind = filesystem(&other.fs_type)?
                    .or(wanted)
                    .unwrap_or(FsKind::Ext4);
                self.at_target(true, |target| fs.mount(&self.node, target, kind, &flags))
            }
        }
    }

    /// Makes sure that there is a sound file system, and returns its type.
    fn prepare(&self, wanted: Option<FsKind>, options: &[String]) -> Result<FsKind, CsiError> {
        let volume = self.volume();
        let host = self.driver.engine.host();
        let content = blank::content(host, &self.node, self.lv.size.0).of_volume(&volume)?;
        match decide(wanted, &self.lv.tags, &content, self.read_only).of_volume(&volume)? {
            // A tag that somebody took away says that the LV is not ours to format.
            Action::Remake(_) if !has_tag(&self.lv, tags::OWNED) => Err(CsiError::Foreign {
                volume,
                vg: self.lv.vg.clone(),
            }),
            Action::Make(kind) => self.make(kind, options),
            Action::Remake(kind) => {
                // Where nothing can be noted, nothing is changed.
                self.tag(tags::FORMATTING, kind)?;
                blank::erase(host, &self.node, self.lv.size.0).of_volume(&volume)?;
                self.make(kind, options)
            }
            Action::Mount(kind) => {
                if !self.read_only {
                    host.fs.check(&self.node, kind).of_volume(&volume)?;
                }
                if tags::value(&self.lv.tags, tags::FILESYSTEM).is_none() {
                    let unchangeable =
                        !has_tag(&self.lv, tags::OWNED) || host.locks.absent().is_some();
                    match self.tag(tags::FILESYSTEM, kind) {
                        // What cannot be noted of it for good cannot be formatted.
                        Err(error) if unchangeable && error.kind() == Kind::FailedPrecondition => {
                            tracing::warn!(%volume, %error, "the file system is not noted");
                        }
                        noted => noted?,
                    }
                }
                Ok(kind)
            }
        }
    }

    /// Makes a file system. The tag comes first: should we die during mkfs, the
    /// next call knows that the half-made content is nobody's data.
    fn make(&self, kind: FsKind, options: &[String]) -> Result<FsKind, CsiError> {
        let fs = &self.driver.engine.host().fs;
        let options = self.driver.format_defaults.or(kind, options);
        self.tag(tags::FORMATTING, kind)?;
        fs.make(&self.node, kind, options)
            .of_volume(&self.volume())?;
        self.tag(tags::FILESYSTEM, kind)?;
        Ok(kind)
    }

    /// Sets `prefix` to `kind` on the LV. The two prefixes exclude each other.
    fn tag(&self, prefix: &'static str, kind: FsKind) -> Result<(), CsiError> {
        let volume = self.volume();
        let remove = super::super::capability::FILESYSTEMS
            .iter()
            .filter(|old| prefix == tags::FILESYSTEM || **old != kind)
            .filter_map(|old| tags::with_value(tags::FORMATTING, old.as_str()))
            .collect();
        let request = Request::Tags {
            name: self.lv.name.clone(),
            add: tags::with_value(prefix, kind.as_str())
                .into_iter()
                .collect(),
            remove,
        };
        self.driver
            .engine
            .submit(&self.lv.vg, request)
            .wait()
            .of_volume(&volume)?;
        Ok(())
    }

    /// Makes the target path and mounts there; takes the path away again if
    /// that fails and the path was not there before.
    fn at_target(
        &self,
        directory: bool,
        mount: impl FnOnce(&Path) -> crate::host::HostResult<()>,
    ) -> Result<(), CsiError> {
        let volume = self.volume();
        let fs = &self.driver.engine.host().fs;
        let existed = match fs.kind_of(&self.target).of_volume(&volume)? {
            Some(is_directory) if is_directory != directory => {
                return Err(self.occupied(if directory {
                    "a file is there, not a directory"
                } else {
                    "a directory is there, not a file"
                }));
            }
            Some(_) => true,
            None => false,
        };
        if !existed {
            let made = if directory {
                fs.make_dir(&self.target)
            } else {
                fs.make_file(&self.target)
            };
            made.of_volume(&volume)?;
        }
        mount(&self.target).of_volume(&volume).inspect_err(|_| {
            if !existed && let Err(error) = fs.remove_path(&self.target) {
                tracing::warn!(%error, "the target path stays behind");
            }
        })
    }
}
