//! The nodes' image store, filled on this machine: an emulated CPU needs minutes
//! for the checksums and the unpacking.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::process;
use crate::run;

const START: Duration = Duration::from_secs(60);

/// Imports the archives into a new store at `dir`/root, as containerd keeps it.
pub(super) fn fill(dir: &Path, archives: &[PathBuf], tools: &Path) -> Result<()> {
    let root = dir.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display()))?;
    }
    let work = dir.join("work");
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    let mut containerd = Containerd::start(&root, &work, tools)?;
    let imported = archives.iter().try_for_each(|archive| {
        run::quiet(containerd.ctr(tools).arg("import").arg(archive)).map(drop)
    });
    containerd.stop()?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    imported
}

/// A daemon for the time of the imports.
struct Containerd {
    child: Child,
    socket: PathBuf,
}

impl Containerd {
    fn start(root: &Path, work: &Path, tools: &Path) -> Result<Self> {
        let config = work.join("config.toml");
        let socket = work.join("containerd.sock");
        fs::write(
            &config,
            format!(
                "version = 3\nroot = {root:?}\nstate = {:?}\n\
                 disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.images\", \
                 \"io.containerd.cri.v1.runtime\"]\n[grpc]\n  address = {socket:?}\n",
                work.join("state")
            ),
        )
        .with_context(|| format!("cannot write {}", config.display()))?;
        let log = work.join("log");
        let output = File::create(&log).with_context(|| format!("no {}", log.display()))?;
        let child = Command::new(tools.join("containerd"))
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start containerd")?;
        let mut this = Self { child, socket };
        let deadline = Instant::now() + START;
        while !this.answers(tools)? {
            if this.child.try_wait()?.is_some() || Instant::now() > deadline {
                let text = fs::read_to_string(&log).unwrap_or_default();
                this.stop()?;
                bail!("containerd does not answer on this machine:\n{text}");
            }
            process::pause();
        }
        Ok(this)
    }

    fn answers(&self, tools: &Path) -> Result<bool> {
        let output = self.ctr(tools).arg("ls").output();
        Ok(output.context("cannot start ctr")?.status.success())
    }

    fn ctr(&self, tools: &Path) -> Command {
        let mut ctr = Command::new(tools.join("ctr"));
        ctr.arg("--address").arg(&self.socket);
        ctr.args(["--namespace", "k8s.io", "images"]);
        ctr
    }

    fn stop(&mut self) -> Result<()> {
        run::quiet(Command::new("kill").arg(self.child.id().to_string()))?;
        self.child.wait().context("cannot wait for containerd")?;
        Ok(())
    }
}
