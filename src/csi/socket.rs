//! The Unix socket: made for root alone, cleared away after use, never taken
//! from a driver that runs.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, umask};

/// Why the socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody answers there.
    #[error("{path} is served by another process; stop that driver first")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Not a socket.
    #[error("{path} exists and is no socket; remove it or choose another endpoint")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{op} {path}: {source}")]
    Io {
        /// What was tried.
        op: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Device, inode and time of the inode's last change: tells our socket from a
/// successor's, which may well get the same inode.
type Identity = (u64, u64, i64, i64);

fn identity(metadata: &Metadata) -> Identity {
    (
        metadata.dev(),
        metadata.ino(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    )
}

/// A listening socket; dropping it removes its path.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    identity: Identity,
}

impl Socket {
    /// Listens at `path` with mode 0600 from the first moment. A socket at
    /// which nobody listens is replaced.
    ///
    /// # Errors
    /// [`SocketError::InUse`] if somebody does.
    pub fn bind(path: &Path) -> Result<(Self, UnixListener), SocketError> {
        let error = |op| {
            move |source| SocketError::Io {
                op,
                path: path.to_owned(),
                source,
            }
        };
        let directory = path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(directory)
            .map_err(error("make the directory of"))?;
        // Two drivers that start at once must not both find a stale socket.
        let directory = File::open(directory).map_err(error("open the directory of"))?;
        let _alone = Flock::lock(directory, FlockArg::LockExclusive)
            .map_err(|(_, errno)| error("lock the directory of")(errno.into()))?;
        clear_stale(path)?;
        let before = umask(Mode::S_IXUSR | Mode::S_IRWXG | Mode::S_IRWXO);
        let bound = UnixListener::bind(path);
        umask(before);
        let listener = bound.map_err(error("listen at"))?;
        listener.set_nonblocking(true).map_err(error("listen at"))?;
        let metadata = fs::symlink_metadata(path).map_err(error("stat"))?;
        let identity = identity(&metadata);
        Ok((
            Self {
                path: path.to_owned(),
                identity,
            },
            listener,
        ))
    }
}

fn clear_stale(path: &Path) -> Result<(), SocketError> {
    let error = |op| {
        move |source| SocketError::Io {
            op,
            path: path.to_owned(),
            source,
        }
    };
    match fs::symlink_metadata(path) {
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(other) => return Err(error("stat")(other)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NotASocket {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::InUse {
            path: path.to_owned(),
        }),
        Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(error("remove the stale"))
        }
        // A full backlog, for instance: there is somebody.
        Err(_) => Err(SocketError::InUse {
            path: path.to_owned(),
        }),
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| identity(&metadata) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the socket stays behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn private_exclusive_and_cleared_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plugins/x/csi.sock");
        let (socket, listener) = Socket::bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(matches!(
            Socket::bind(&path),
            Err(SocketError::InUse { .. })
        ));
        drop(socket);
        assert!(!path.exists());
        drop(listener);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_successors_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        let (old, listener) = Socket::bind(&path).unwrap();
        drop(listener);
        let (new, _listener) = Socket::bind(&path).unwrap();
        drop(old);
        assert!(path.exists());
        drop(new);
        assert!(!path.exists());
    }

    #[test]
    fn other_files_are_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(
            Socket::bind(&path),
            Err(SocketError::NotASocket { .. })
        ));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}
