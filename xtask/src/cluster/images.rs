//! Container images without a registry: docker archives that `ctr images import`
//! takes, under the very names that the manifests use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::binaries::version_of;
use crate::{paths, run};

/// The image that a pod's sandbox runs.
pub(super) const PAUSE: &str = "lvcsi.test/pause:1";
/// What test pods run: busybox.
pub(super) const BUSYBOX: &str = "docker.io/library/busybox:stable";

/// The driver that does nothing, for the benchmark.
const NULL_DRIVER: &str = "lvcsi.test/null-driver:1";

/// One image: a name and the files that it consists of.
struct Image<'a> {
    name: String,
    /// Made by the script that makes the driver's image for users, for this
    /// program; `bare` without mkfs and fsck.
    root: Option<(&'a Path, bool)>,
    /// Source on this machine, path in the image.
    files: Vec<(PathBuf, &'a str)>,
    /// Busybox has a link for each of its programs.
    busybox_links: bool,
    entrypoint: Vec<&'a str>,
}

/// Makes every image that a node needs, and a store of them all.
pub(crate) fn make(driver: &Path, null_driver: &Path, tools: &Path) -> Result<()> {
    let dir = paths::cluster().join("images");
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let pins = fs::read_to_string(paths::root().join("tests/cluster/go.mod"))
        .context("cannot read tests/cluster/go.mod")?;
    let sidecar = |program: &'static str, module: &str| -> Result<Image<'static>> {
        let version = version_of(&pins, module)
            .with_context(|| format!("tests/cluster/go.mod does not pin {module}"))?;
        Ok(Image {
            name: format!("registry.k8s.io/sig-storage/{program}:{version}"),
            root: None,
            files: vec![(tools.join(program), program)],
            busybox_links: false,
            entrypoint: vec![program],
        })
    };
    let busybox = PathBuf::from("/bin/busybox");
    let images = [
        Image {
            name: PAUSE.to_owned(),
            root: None,
            files: vec![(busybox.clone(), "bin/busybox")],
            busybox_links: false,
            entrypoint: vec!["bin/busybox", "sleep", "2147483647"],
        },
        Image {
            name: BUSYBOX.to_owned(),
            root: None,
            files: vec![(busybox, "bin/busybox")],
            busybox_links: true,
            entrypoint: vec!["bin/sh"],
        },
        Image {
            name: super::DRIVER_IMAGE.to_owned(),
            root: Some((driver, false)),
            files: Vec::new(),
            busybox_links: false,
            entrypoint: vec!["usr/local/bin/lvcsi"],
        },
        Image {
            name: NULL_DRIVER.to_owned(),
            root: Some((null_driver, true)),
            files: Vec::new(),
            busybox_links: false,
            entrypoint: vec!["usr/local/bin/lvcsi-null-driver"],
        },
        sidecar(
            "csi-provisioner",
            "github.com/kubernetes-csi/external-provisioner/v6",
        )?,
        sidecar(
            "csi-resizer",
            "github.com/kubernetes-csi/external-resizer/v2",
        )?,
    ];
    let archives = images
        .iter()
        .map(|image| image.archive(&dir))
        .collect::<Result<Vec<_>>>()?;
    super::store::fill(&dir, &archives, tools)
}

impl Image<'_> {
    /// Writes the archive.
    fn archive(&self, dir: &Path) -> Result<PathBuf> {
        let file_name = self.name.replace(['/', ':'], "_");
        let work = dir.join(format!("{file_name}.work"));
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        let layer = work.join("files");
        fs::create_dir_all(&layer)?;
        if let Some((program, bare)) = self.root {
            let mut script = Command::new(paths::root().join("deploy/rootfs.sh"));
            script.arg(&layer).arg(program);
            run::quiet(script.args(bare.then_some("--bare")))?;
            let name = program.file_name().unwrap_or_default();
            let program = layer.join("usr/local/bin").join(name);
            // Every node keeps the image in its memory.
            run::quiet(Command::new("strip").arg("--strip-debug").arg(program))?;
        }
        for (from, to) in &self.files {
            let to = layer.join(to);
            fs::create_dir_all(to.parent().unwrap_or(&layer))?;
            fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
        if self.busybox_links {
            for program in run::text(Command::new("/bin/busybox").arg("--list"))?.lines() {
                let link = layer.join("bin").join(program);
                if !link.exists() {
                    std::os::unix::fs::symlink("busybox", &link)?;
                }
            }
        }
        tar(&work.join("files.tar"), &layer, &["."])?;
        let digest = format!("sha256:{}", sha256(&work.join("files.tar"))?);
        let mut entrypoint: Vec<String> = self
            .entrypoint
            .iter()
            .map(|&word| word.to_owned())
            .collect();
        if let Some(program) = entrypoint.first_mut() {
            program.insert(0, '/');
        }
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": entrypoint,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": [digest]},
        });
        let manifest = json!([{
            "Config": "config.json",
            "RepoTags": [self.name],
            "Layers": ["files.tar"],
        }]);
        fs::write(work.join("config.json"), config.to_string())?;
        fs::write(work.join("manifest.json"), manifest.to_string())?;
        let archive = dir.join(format!("{file_name}.tar"));
        let members = ["manifest.json", "config.json", "files.tar"];
        tar(&archive, &work, &members)?;
        fs::remove_dir_all(&work)?;
        Ok(archive)
    }
}

/// Packs `members` of `dir`; the same files give the same bytes.
fn tar(archive: &Path, dir: &Path, members: &[&str]) -> Result<()> {
    run::quiet(
        Command::new("tar")
            .args([
                "--owner=0",
                "--group=0",
                "--numeric-owner",
                "--sort=name",
                "--mtime=@0",
                "-C",
            ])
            .arg(dir)
            .arg("-cf")
            .arg(archive)
            .args(members),
    )?;
    Ok(())
}

fn sha256(file: &Path) -> Result<String> {
    let line = run::text(Command::new("sha256sum").arg("--").arg(file))?;
    let digest = line.split_whitespace().next();
    Ok(digest.context("sha256sum printed nothing")?.to_owned())
}
