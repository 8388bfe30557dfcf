//! The control plane: etcd, API server, controller manager and scheduler as
//! processes on this machine's loopback.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{paths, run};

/// Of the API server, on the loopback.
pub(crate) const API_PORT: u16 = 16443;
/// Of etcd for its clients, there too.
pub(super) const ETCD_PORT: u16 = 12379;
const ETCD_PEER_PORT: u16 = 12380;
/// Starting takes seconds; a busy machine may need more.
const START: Duration = Duration::from_secs(180);

/// The order of starting. The API server must be stopped before etcd, or hangs.
const PROGRAMS: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

/// The control plane's folder and programs.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    pub(crate) dir: PathBuf,
    pub(crate) tools: PathBuf,
}

impl Control {
    pub(crate) fn new(tools: &Path) -> Self {
        Self {
            dir: paths::cluster().join("run"),
            tools: tools.to_owned(),
        }
    }

    /// The kubeconfig of the administrator on this machine.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// The kubeconfig of a kubelet in a guest.
    pub(crate) fn node_kubeconfig(&self) -> PathBuf {
        self.dir.join("node.kubeconfig")
    }

    /// `kubectl` for the administrator.
    pub(crate) fn kubectl(&self) -> Command {
        let mut command = Command::new(self.tools.join("kubectl"));
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    /// Starts everything from nothing; returns when the API server is ready.
    pub(crate) fn start(&self) -> Result<()> {
        if self.dir.exists() {
            self.stop()?;
            fs::remove_dir_all(&self.dir)
                .with_context(|| format!("cannot remove {}", self.dir.display()))?;
        }
        fs::create_dir_all(self.etcd_data())
            .with_context(|| format!("cannot create {}", self.dir.display()))?;
        self.write_credentials()?;
        self.start_etcd()?;
        self.start_api()?;
        self.start_managers()
    }

    /// Stops what was started, in the opposite order.
    pub(crate) fn stop(&self) -> Result<()> {
        for program in PROGRAMS.iter().rev() {
            self.kill(program, "-TERM")?;
        }
        Ok(())
    }

    /// The API server alone.
    pub(crate) fn stop_api(&self) -> Result<()> {
        self.kill("kube-apiserver", "-TERM")
    }

    /// etcd alone, when nobody uses it.
    pub(super) fn stop_etcd(&self) -> Result<()> {
        self.kill("etcd", "-TERM")
    }

    /// Where etcd has its data.
    pub(super) fn etcd_data(&self) -> PathBuf {
        self.dir.join("etcd")
    }

    /// How many nodes it was started with.
    pub(crate) fn nodes(&self) -> Result<u16> {
        let file = self.dir.join("nodes");
        let text = fs::read_to_string(&file)
            .with_context(|| format!("no cluster is up: no {}", file.display()))?;
        text.trim()
            .parse()
            .with_context(|| format!("{}: {text:?}", file.display()))
    }

    /// etcd alone, on the data that is there.
    pub(super) fn start_etcd(&self) -> Result<()> {
        let client = format!("http://127.0.0.1:{ETCD_PORT}");
        let peer = format!("http://127.0.0.1:{ETCD_PEER_PORT}");
        self.spawn(
            "etcd",
            "server",
            &[
                "--data-dir".into(),
                self.etcd_data().display().to_string(),
                "--unsafe-no-fsync".into(),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=default={peer}"),
            ],
        )
    }

    /// The API server; returns when it is ready.
    pub(crate) fn start_api(&self) -> Result<()> {
        let path = |name: &str| self.dir.join(name).display().to_string();
        self.spawn(
            "kube-apiserver",
            "kube-apiserver",
            &[
                format!("--etcd-servers=http://127.0.0.1:{ETCD_PORT}"),
                "--bind-address=127.0.0.1".into(),
                format!("--secure-port={API_PORT}"),
                format!("--cert-dir={}", self.dir.display()),
                format!("--token-auth-file={}", path("tokens.csv")),
                "--authorization-mode=RBAC".into(),
                "--service-cluster-ip-range=10.96.0.0/16".into(),
                "--allow-privileged".into(),
                "--endpoint-reconciler-type=none".into(),
                "--service-account-issuer=https://kubernetes.default.svc".into(),
                format!("--service-account-key-file={}", path("sa.pub")),
                format!("--service-account-signing-key-file={}", path("sa.key")),
                format!("--audit-policy-file={}", path("audit.yaml")),
                format!("--audit-log-path={}", path("audit.log")),
            ],
        )?;
        self.wait_ready()
    }

    pub(super) fn start_managers(&self) -> Result<()> {
        let kubeconfig = self.kubeconfig().display().to_string();
        let key = self.dir.join("sa.key").display().to_string();
        let ca = self.dir.join("apiserver.crt").display().to_string();
        self.spawn(
            "kube-controller-manager",
            "kube-controller-manager",
            &[
                format!("--kubeconfig={kubeconfig}"),
                format!("--service-account-private-key-file={key}"),
                format!("--root-ca-file={ca}"),
                "--use-service-account-credentials".into(),
                "--leader-elect=false".into(),
                // Its own throttles hide every driver's latency.
                "--kube-api-qps=500".into(),
                "--kube-api-burst=1000".into(),
            ],
        )?;
        self.spawn(
            "kube-scheduler",
            "kube-scheduler",
            &[
                format!("--kubeconfig={kubeconfig}"),
                "--leader-elect=false".into(),
                "--kube-api-qps=500".into(),
                "--kube-api-burst=1000".into(),
            ],
        )
    }

    fn write_credentials(&self) -> Result<()> {
        let token = run::text(Command::new("openssl").args(["rand", "-hex", "16"]))?;
        let token = token.trim();
        // Nodes are administrators here: what kubelets may do is not under test.
        fs::write(
            self.dir.join("tokens.csv"),
            format!("{token},admin,admin,system:masters\n"),
        )?;
        let key = self.dir.join("sa.key");
        run::quiet(Command::new("openssl").args(["genrsa", "-out"]).arg(&key))?;
        run::quiet(
            Command::new("openssl")
                .args(["rsa", "-pubout", "-in"])
                .arg(&key)
                .arg("-out")
                .arg(self.dir.join("sa.pub")),
        )?;
        // Who lists, watches and writes is asserted from this log.
        fs::write(
            self.dir.join("audit.yaml"),
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
             rules: [{level: Metadata}]\n",
        )?;
        for (file, host) in [
            (self.kubeconfig(), "127.0.0.1"),
            (self.node_kubeconfig(), "10.0.2.2"),
        ] {
            fs::write(&file, kubeconfig(host, token))
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    fn wait_ready(&self) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            let mut ready = self.kubectl();
            ready.args(["get", "--raw", "/readyz", "--request-timeout=5s"]);
            let answer = ready.output().context("cannot start kubectl")?;
            if answer.status.success() {
                return Ok(());
            }
            if !self.alive("kube-apiserver") || Instant::now() > deadline {
                bail!(
                    "the API server is not ready: {}; its log is {}",
                    String::from_utf8_lossy(&answer.stderr).trim(),
                    self.log("kube-apiserver").display()
                );
            }
            super::process::pause();
        }
    }

    /// Starts a program that outlives us.
    fn spawn(&self, name: &str, program: &str, args: &[String]) -> Result<()> {
        let log = self.log(name);
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = Command::new("setsid");
        command
            .arg(self.tools.join(program))
            .args(args)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        fs::write(self.pid_file(name), child.id().to_string())?;
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    fn pid_file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.pid"))
    }

    fn alive(&self, name: &str) -> bool {
        super::process::alive(&self.pid_file(name))
    }

    fn kill(&self, name: &str, signal: &str) -> Result<()> {
        super::process::kill(&self.pid_file(name), signal)
    }
}

fn kubeconfig(host: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         current-context: lvcsi\n\
         clusters:\n\
         - name: lvcsi\n  cluster:\n    server: https://{host}:{API_PORT}\n    \
         insecure-skip-tls-verify: true\n\
         users:\n\
         - name: admin\n  user:\n    token: {token}\n\
         contexts:\n\
         - name: lvcsi\n  context: {{cluster: lvcsi, user: admin}}\n"
    )
}
