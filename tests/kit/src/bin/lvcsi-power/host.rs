//! The wire to the host: one line there, one line back. What the host has
//! answered it has noted, and no power cut in the guest can undo it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the virtio port.
const PORT: &str = "lvcsi.power";

/// The port, shared by all threads.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    port: Arc<Mutex<File>>,
}

impl Host {
    pub(crate) fn open() -> Self {
        let path = port();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self {
            port: Arc::new(Mutex::new(file)),
        }
    }

    /// Sends a line and waits for the answer.
    pub(crate) fn ask(&self, line: &str) -> String {
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        port.write_all(format!("{line}\n").as_bytes())
            .expect("the host listens");
        let mut answer = Vec::new();
        let mut byte = [0];
        loop {
            port.read_exact(&mut byte).expect("the host answers");
            match byte[0] {
                b'\n' => break,
                other => answer.push(other),
            }
        }
        String::from_utf8(answer).expect("text from the host")
    }

    /// Lets the host know why this program cannot go on.
    pub(crate) fn tell_of_panics(&self) {
        let port = Arc::clone(&self.port);
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            usual(info);
            let text = info.to_string().replace('\n', " | ");
            // The thread that panicked may hold the port; then the console
            // alone has the story.
            if let Ok(mut port) = port.try_lock() {
                let _ = port.write_all(format!("failed {text}\n").as_bytes());
            }
        }));
    }
}

fn port() -> PathBuf {
    let ports = fs::read_dir("/sys/class/virtio-ports").expect("virtio ports");
    ports
        .flatten()
        .find(|entry| {
            fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == PORT)
        })
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .unwrap_or_else(|| panic!("no virtio port {PORT}"))
}
