//! Why a mount failed, said in one line with what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::geteuid;

use super::device::DEVICE;
use crate::message::{plain, shown};
use crate::model::OpenError;

/// What stopped a mount.
#[derive(Debug)]
pub enum Error {
    /// The model was refused.
    Model(OpenError),
    /// The mountpoint does not exist.
    NoMountpoint(PathBuf),
    /// The mountpoint is something other than a directory.
    NotDirectory(PathBuf),
    /// The mountpoint, or a directory above it, belongs to a FUSE mount whose daemon is dead.
    Dead(PathBuf),
    /// A FUSE filesystem is mounted there already.
    AlreadyMounted {
        /// Where.
        point: PathBuf,
        /// Its type, such as `fuse.gguf-fs`.
        fs_type: String,
        /// What it shows.
        source: PathBuf,
    },
    /// `/dev/fuse` could not be opened.
    NoDevice(io::Error),
    /// mount(2) is not permitted, and there is no `fusermount3` to do it.
    NoFusermount(PathBuf),
    /// `fusermount3` refused; its own words.
    Fusermount(PathBuf, String),
    /// mount(2) failed.
    Mount(PathBuf, Errno),
    /// The mount does not answer though all seemed well.
    Silent(PathBuf, Errno),
    /// The process in the background was killed before the mount was ready.
    Killed(PathBuf, String),
    /// Not even one thread's buffers fit into the memory that this process may have.
    NoMemory(PathBuf),
    /// Any other failure of the system, on a path.
    Io(PathBuf, io::Error),
}

/// What a container lacks, mostly.
const CONTAINER: &str = "in a container, start that with --device /dev/fuse --cap-add SYS_ADMIN";

/// What works wherever the model can be read.
const WITHOUT: &str = "gguf-fs ls and gguf-fs cat work without";

impl Error {
    /// For `map_err`: an I/O error on `path`.
    pub(super) fn io<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Error {
        move |e| Error::Io(path.to_owned(), e.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Model(e) => write!(f, "{e}"),
            Error::NoMountpoint(path) => {
                write!(f, "{}: no such directory; make the mountpoint first", shown(path))
            }
            Error::NotDirectory(path) => {
                write!(
                    f,
                    "{}: is not a directory; the mountpoint is named second, after the model",
                    shown(path)
                )
            }
            Error::Dead(path) => write!(
                f,
                "{}: dead mount (Transport endpoint is not connected); run: {}",
                shown(path),
                unmount_command(path)
            ),
            Error::AlreadyMounted { point, fs_type, source } => write!(
                f,
                "{}: already mounted ({} of {}); to unmount it first, run: {}",
                shown(point),
                shown(Path::new(fs_type)),
                shown(source),
                unmount_command(point)
            ),
            Error::NoDevice(e) if !is_missing(e) => write!(f, "{DEVICE}: {}", plain(e)),
            Error::NoDevice(e) => write!(
                f,
                "{DEVICE}: {}; load the kernel module (modprobe fuse), or {CONTAINER}; {WITHOUT}",
                plain(e)
            ),
            Error::NoFusermount(path) if geteuid().is_root() => write!(
                f,
                "{}: this root may not mount (it has no CAP_SYS_ADMIN); {CONTAINER}; {WITHOUT}",
                shown(path)
            ),
            Error::NoFusermount(path) => write!(
                f,
                "{}: only root may mount without fusermount3, which was not found; install the \
                 package fuse3; {WITHOUT}",
                shown(path)
            ),
            Error::Fusermount(path, words) => {
                write!(f, "{}: {}", shown(path), shown(Path::new(words)))?;
                if words.ends_with(Errno::EPERM.desc()) {
                    write!(f, "; {CONTAINER}; {WITHOUT}")
                } else if words.contains(DEVICE) {
                    write!(f, "; root can allow it: chmod 666 {DEVICE}; {WITHOUT}")
                } else {
                    Ok(())
                }
            }
            Error::Mount(path, e) => write!(f, "{}: mount failed: {}", shown(path), e.desc()),
            Error::Silent(path, e) => {
                write!(f, "{}: mounted, but it does not answer: {}", shown(path), e.desc())
            }
            Error::Killed(path, by) => {
                write!(f, "{}: killed by {by} before the mount was ready", shown(path))
            }
            Error::NoMemory(path) => {
                write!(f, "{}: too little memory allowed (see ulimit -d, ulimit -v)", shown(path))
            }
            Error::Io(path, e) => write!(f, "{}: {}", shown(path), plain(e)),
        }
    }
}

impl std::error::Error for Error {}

impl From<OpenError> for Error {
    fn from(e: OpenError) -> Error {
        Error::Model(e)
    }
}

/// Whether the kernel has no FUSE to offer, rather than this process no descriptor left for it.
fn is_missing(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO | Errno::EPERM))
}

/// What this user runs to unmount `path`, ready to paste into a shell.
fn unmount_command(path: &Path) -> String {
    let path = path.to_string_lossy();
    let safe = |c: char| c.is_alphanumeric() || "/._-+,@%:=".contains(c);
    let quoted = if path.chars().all(safe) {
        path.into_owned()
    } else if path.chars().any(char::is_control) {
        format!("$'{}'", path.escape_default())
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    };
    if geteuid().is_root() {
        format!("umount {quoted}")
    } else {
        format!("fusermount3 -u {quoted}")
    }
}
