//! The parts of lvm.conf and lvmlocal.conf that concern the host.

use std::io;
use std::path::{Path, PathBuf};

use lvm2::text::Section;

use super::filter::{Filter, FilterError};
use crate::host::{HostError, HostResult, Identity};

/// Names of the system id that belong to no particular machine.
const NOBODY: [&str; 2] = ["localhost", "localhost.localdomain"];

/// Where a set of files comes from, and what is in it. The first file wins.
#[derive(Debug)]
pub(super) struct LvmConf {
    dir: PathBuf,
    /// With the path of each, lvmlocal.conf first.
    files: Vec<(PathBuf, Section)>,
}

/// When md superblocks are looked for at the end of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MdChecks {
    /// Only where this machine has arrays with such superblocks.
    Auto,
    /// Never.
    Start,
    /// Always.
    Full,
}

impl LvmConf {
    /// Reads the files in `dir`. A missing file sets nothing.
    pub(super) fn read(dir: &Path) -> HostResult<Self> {
        let mut texts = Vec::new();
        for name in ["lvmlocal.conf", "lvm.conf"] {
            let path = dir.join(name);
            match std::fs::read(&path) {
                Ok(text) => texts.push((path, text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(HostError::Path {
                        op: "read",
                        path,
                        source,
                    });
                }
            }
        }
        Self::parse(dir, texts)
    }

    /// Understands the texts of the files in `dir`, the one that wins first.
    pub(super) fn parse(dir: &Path, texts: Vec<(PathBuf, Vec<u8>)>) -> HostResult<Self> {
        let understand = |(path, text): (PathBuf, Vec<u8>)| {
            let section = Section::parse(&text).map_err(|error| wrong(&path, &error))?;
            Ok((path, section))
        };
        Ok(Self {
            dir: dir.to_owned(),
            files: texts
                .into_iter()
                .map(understand)
                .collect::<HostResult<_>>()?,
        })
    }

    /// The first file that sets `section/key`, or the older flat form.
    fn find<'a, T>(
        &'a self,
        section: &str,
        key: &str,
        get: impl Fn(&'a Section, &str) -> Option<T>,
    ) -> Option<(&'a Path, T)> {
        let flat = format!("{section}/{key}");
        self.files.iter().find_map(|(path, file)| {
            let inside = file.section(section).and_then(|section| get(section, key));
            Some((path.as_path(), inside.or_else(|| get(file, &flat))?))
        })
    }

    fn flag(&self, section: &str, key: &str, default: bool) -> bool {
        self.find(section, key, Section::int)
            .map_or(default, |(_, value)| value != 0)
    }

    fn word(&self, section: &str, key: &str) -> Option<&str> {
        self.find(section, key, Section::str)
            .map(|(_, value)| value)
            .filter(|value| !value.is_empty())
    }

    fn filter(&self, key: &str) -> HostResult<Filter> {
        let Some((path, patterns)) = self.find("devices", key, Section::strings) else {
            return Ok(Filter::default());
        };
        Filter::new(patterns).map_err(|error: FilterError| wrong(path, &error))
    }

    pub(super) fn global_filter(&self) -> HostResult<Filter> {
        self.filter("global_filter")
    }

    pub(super) fn local_filter(&self) -> HostResult<Filter> {
        self.filter("filter")
    }

    pub(super) fn scan_lvs(&self) -> bool {
        self.flag("devices", "scan_lvs", false)
    }

    pub(super) fn multipath_detection(&self) -> bool {
        self.flag("devices", "multipath_component_detection", true)
    }

    pub(super) fn md_detection(&self) -> bool {
        self.flag("devices", "md_component_detection", true)
    }

    pub(super) fn md_checks(&self) -> MdChecks {
        match self.word("devices", "md_component_checks") {
            Some("start") => MdChecks::Start,
            Some("full") => MdChecks::Full,
            _ => MdChecks::Auto,
        }
    }

    /// The devices file, if lvm.conf does not switch it off. Without a word in
    /// lvm.conf its presence decides, and lvm2 ignores an absent file anyway.
    pub(super) fn devices_file(&self) -> Option<PathBuf> {
        let name = self
            .word("devices", "devicesfile")
            .unwrap_or("system.devices");
        self.flag("devices", "use_devicesfile", true)
            .then(|| self.dir.join("devices").join(name))
    }

    pub(super) fn locking_dir(&self) -> PathBuf {
        self.word("global", "locking_dir")
            .unwrap_or("/run/lock/lvm")
            .into()
    }

    /// Where lvm2 keeps the newest metadata of each VG, unless it does not.
    pub(super) fn backup_dir(&self) -> Option<PathBuf> {
        let dir = self.word("backup", "backup_dir").map(PathBuf::from);
        self.flag("backup", "backup", true)
            .then(|| dir.unwrap_or_else(|| self.dir.join("backup")))
    }

    /// Who this machine is. `etc` holds machine-id.
    pub(super) fn identity(
        &self,
        hostname: String,
        kernel: String,
        etc: &Path,
    ) -> HostResult<Identity> {
        let source = self.word("global", "system_id_source").unwrap_or("none");
        let system_id = match source.to_ascii_lowercase().as_str() {
            "none" => None,
            "lvmlocal" => self.word("local", "system_id").map(str::to_owned),
            "uname" => Some(hostname.clone()),
            "machineid" => first_line(&etc.join("machine-id"))?,
            "file" => match self.word("global", "system_id_file") {
                Some(path) => first_line(Path::new(path))?,
                None => None,
            },
            _ => {
                let path = self
                    .find("global", "system_id_source", Section::str)
                    .map_or_else(|| self.dir.join("lvm.conf"), |(path, _)| path.to_owned());
                let reason = format!(
                    "global/system_id_source = {source:?} is not supported \
                     (none, lvmlocal, uname, machineid, file)"
                );
                return Err(HostError::Config { path, reason });
            }
        };
        let extra = self
            .find("local", "extra_system_ids", Section::strings)
            .map_or_else(Vec::new, |(_, ids)| ids);
        Ok(Identity {
            hostname,
            kernel,
            system_id: system_id.as_deref().and_then(allowed_system_id),
            extra_system_ids: extra.into_iter().filter_map(allowed_system_id).collect(),
        })
    }
}

fn wrong(path: &Path, reason: &dyn std::fmt::Display) -> HostError {
    HostError::Config {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// The first line that says something. A file that lvm.conf names and that
/// cannot be read is an error: without the id, own VGs would look foreign.
fn first_line(path: &Path) -> HostResult<Option<String>> {
    let text = std::fs::read_to_string(path).map_err(|source| HostError::Path {
        op: "read",
        path: path.to_owned(),
        source,
    })?;
    Ok(text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned))
}

/// Drops what lvm2 drops from a system id: characters that a name may not have,
/// and names that every machine has.
fn allowed_system_id(raw: &str) -> Option<String> {
    let id: String = raw
        .trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+'))
        .take(128)
        .collect();
    (!id.is_empty() && !NOBODY.contains(&id.as_str())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(files: &[(&str, &str)]) -> (tempfile::TempDir, HostResult<LvmConf>) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let conf = LvmConf::read(dir.path());
        (dir, conf)
    }

    #[test]
    fn no_files_give_the_defaults_of_lvm2() {
        let (dir, conf) = conf(&[]);
        let conf = conf.unwrap();
        assert_eq!(conf.locking_dir(), Path::new("/run/lock/lvm"));
        assert!(!conf.scan_lvs() && conf.multipath_detection() && conf.md_detection());
        assert!(conf.global_filter().unwrap().is_empty());
        assert_eq!(
            conf.devices_file(),
            Some(dir.path().join("devices/system.devices"))
        );
        assert_eq!(conf.md_checks(), MdChecks::Auto);
        let identity = conf
            .identity("node-1".to_owned(), "Linux 6".to_owned(), dir.path())
            .unwrap();
        assert_eq!(identity.system_id, None);
        assert_eq!(identity.hostname, "node-1");
    }

    #[test]
    fn reads_sections_and_flat_keys_and_the_local_file_wins() {
        let lvm = "# a comment\ndevices {\n\tfilter = [ \"a|sd|\", \"r|.*|\" ]\n\tglobal_filter = \"r|sdz|\"\n\
            \tuse_devicesfile = 0\n}\ndevices/scan_lvs = 1\nglobal {\n\tlocking_dir = \"/run/x\"\n\
            \tsystem_id_source = \"lvmlocal\"\n}\n";
        let local = "local {\n\tsystem_id = \"no de\"\n\textra_system_ids = [ \"other\", \"localhost\" ]\n}\n\
            devices { md_component_checks = \"full\" }\n";
        let (dir, conf) = conf(&[("lvm.conf", lvm), ("lvmlocal.conf", local)]);
        let conf = conf.unwrap();
        assert!(conf.scan_lvs());
        assert_eq!(conf.devices_file(), None);
        assert_eq!(conf.locking_dir(), Path::new("/run/x"));
        assert_eq!(conf.backup_dir(), Some(dir.path().join("backup")));
        assert_eq!(conf.md_checks(), MdChecks::Full);
        assert!(
            !conf
                .local_filter()
                .unwrap()
                .accepts([Path::new("/dev/vda")])
        );
        assert!(
            !conf
                .global_filter()
                .unwrap()
                .accepts([Path::new("/dev/sdz")])
        );
        let identity = conf
            .identity("h".to_owned(), String::new(), dir.path())
            .unwrap();
        assert_eq!(identity.system_id.as_deref(), Some("node"));
        assert_eq!(identity.extra_system_ids, ["other"]);
    }

    #[test]
    fn sources_of_the_system_id() {
        let id = |source: &str, hostname: &str| {
            let text = format!("global {{\n system_id_source = \"{source}\"\n}}\n");
            let (dir, conf) = conf(&[("lvm.conf", &text), ("machine-id", "0123abc\n")]);
            conf.unwrap()
                .identity(hostname.to_owned(), String::new(), dir.path())
                .map(|i| i.system_id)
        };
        assert_eq!(id("uname", "node-1").unwrap().as_deref(), Some("node-1"));
        assert_eq!(id("uname", "localhost").unwrap(), None);
        assert_eq!(id("machineid", "x").unwrap().as_deref(), Some("0123abc"));
        assert_eq!(id("file", "x").unwrap(), None);
        let error = id("appmachineid", "x").unwrap_err().to_string();
        assert!(
            error.contains("lvm.conf") && error.contains("appmachineid"),
            "{error}"
        );
    }

    #[test]
    fn backups_of_lvm2() {
        let dir = |text: &str| conf(&[("lvm.conf", text)]).1.unwrap().backup_dir();
        assert_eq!(dir("backup {\n backup = 0\n}\n"), None);
        let elsewhere = dir("backup {\n backup_dir = \"/b\"\n}\n");
        assert_eq!(elsewhere.as_deref(), Some(Path::new("/b")));
    }

    #[test]
    fn names_the_file_that_is_wrong() {
        let (dir, result) = conf(&[("lvm.conf", "devices {\n filter = [ \"a|x|\"\n")]);
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains(dir.path().join("lvm.conf").to_str().unwrap()),
            "{error}"
        );
        let (_dir, result) = conf(&[("lvm.conf", "devices {\n filter = \"x|x|\"\n}\n")]);
        let error = result.unwrap().local_filter().unwrap_err().to_string();
        assert!(error.contains("must begin with a or r"), "{error}");
    }
}
