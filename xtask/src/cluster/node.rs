//! Nodes: QEMU guests that run containerd and the kubelet.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::control::{API_PORT, Control};
use crate::guest::{self, Options, Streams};
use crate::{artifacts, paths};

/// The first node's port for commands, on both sides; the next nodes follow.
const EXEC_PORT: u16 = 17070;
const READY: Duration = Duration::from_secs(300);
const MEMORY: u64 = 4 << 30;
const DISK_SIZE: u64 = 100 << 30;

/// One node by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) u16);

impl Node {
    pub(crate) fn name(self) -> String {
        format!("node{}", self.0)
    }

    /// Its logs and disks.
    pub(crate) fn dir(self) -> PathBuf {
        paths::cluster().join("nodes").join(self.name())
    }

    fn pid_file(self) -> PathBuf {
        self.dir().join("guest.pid")
    }

    /// Starts the guest as a process of its own.
    pub(crate) fn start(self, control: &Control) -> Result<()> {
        let dir = self.dir();
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let log = File::create(dir.join("guest.log"))?;
        let child = Command::new("setsid")
            .arg(paths::this_program()?)
            .args(["cluster", "guest", &self.0.to_string()])
            .arg(&control.tools)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the node's guest")?;
        fs::write(self.pid_file(), child.id().to_string())?;
        Ok(())
    }

    /// The process that [`start`](Self::start) starts: boots and serves until it is
    /// killed.
    pub(crate) fn serve(self, control: &Control) -> Result<i32> {
        let built = artifacts::build(&["build", "--workspace", "--bins"])?;
        let exec = artifacts::find(&built, "bin", "lvcsi-node-exec")?;
        let port = EXEC_PORT + self.0;
        let options = Options {
            cpus: 2,
            memory: MEMORY,
            disks: 2,
            disk_size: DISK_SIZE,
            disk_dir: Some(self.dir().join("disks")),
            results: Some(self.dir()),
            network: true,
            forward: vec![(port, port)],
            timeout: Duration::from_secs(24 * 3600),
            env: vec![("NODE_EXEC".into(), exec.into())],
            ..Options::default()
        };
        let argv = [
            paths::root().join("tests/cluster/node.sh").into(),
            self.name().into(),
            API_PORT.to_string().into(),
            port.to_string().into(),
            control.tools.clone().into(),
            paths::cluster().join("images").into(),
            control.node_kubeconfig().into(),
        ];
        guest::run(&options, &argv, Streams::inherit())
    }

    /// Pulls the plug.
    pub(crate) fn kill(self) -> Result<()> {
        super::process::kill(&self.pid_file(), "-KILL")
    }

    /// Removes logs and disks.
    pub(crate) fn forget(self) -> Result<()> {
        let dir = self.dir();
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        Ok(())
    }

    /// Waits until Kubernetes calls the node ready.
    pub(crate) fn wait_ready(self, control: &Control) -> Result<()> {
        let deadline = Instant::now() + READY;
        let name = format!("node/{}", self.name());
        loop {
            let answer = control
                .kubectl()
                .args(["wait", "--for=condition=Ready", &name, "--timeout=10s"])
                .output()
                .context("cannot start kubectl")?;
            if answer.status.success() {
                return Ok(());
            }
            if !super::process::alive(&self.pid_file()) {
                let log = self.dir().join("guest.log");
                let text = fs::read(&log).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                let last = text.lines().next_back().unwrap_or("nothing");
                bail!(
                    "{name}: its guest ended, and said: {last}; see {}",
                    log.display()
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "{name} is not ready: {}; logs are in {}",
                    String::from_utf8_lossy(&answer.stderr).trim(),
                    self.dir().display()
                );
            }
            // An absent object is answered at once.
            super::process::pause();
        }
    }

    /// Runs a shell script on the node: output of both streams, and the status.
    pub(crate) fn exec(self, script: &str) -> Result<(String, i32)> {
        let port = EXEC_PORT + self.0;
        let failed = || format!("cannot run a command on {}", self.name());
        let mut stream = TcpStream::connect(("127.0.0.1", port)).with_context(failed)?;
        write!(stream, "{}\n{script}", script.len()).with_context(failed)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).with_context(failed)?;
        let end = answer.iter().rposition(|&byte| byte == 0);
        let end = end.with_context(|| format!("{} gave no status", self.name()))?;
        let status = String::from_utf8_lossy(&answer[end + 1..]).parse();
        Ok((
            String::from_utf8_lossy(&answer[..end]).into_owned(),
            status.with_context(failed)?,
        ))
    }
}
