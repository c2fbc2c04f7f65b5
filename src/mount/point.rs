//! The mountpoint, looked at before anything is mounted on it.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::statfs;

use super::error::Error;
use super::mountinfo;

/// Checks that `point` can be mounted on and returns its canonical path.
///
/// A directory that is not empty, and one that another kind of filesystem is mounted on (a volume
/// of a container, a disk), are fine. A FUSE filesystem that is mounted there already is not: a
/// command that was given twice would only hide the first mount.
///
/// # Errors
/// A different one for a mountpoint that is missing, no directory, dead, in use, out of reach.
pub(super) fn check(point: &Path) -> Result<PathBuf, Error> {
    let failed = |e: io::Error| match e.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => Error::NoMountpoint(point.to_owned()),
        Some(Errno::ENOTDIR) => Error::NotDirectory(point.to_owned()),
        Some(Errno::ENOTCONN | Errno::ECONNABORTED) => dead(point),
        _ => Error::Io(point.to_owned(), e),
    };
    let canonical = point.canonicalize().map_err(failed)?;
    let mounts = mountinfo::read().map_err(Error::io(Path::new(mountinfo::TABLE)))?;
    if let Some(mount) = mountinfo::top(&mounts, &canonical).filter(|m| m.is_fuse()) {
        // The root of a dead mount may still answer stat from the kernel's cache; statfs always asks.
        statfs(&canonical).map_err(|e| failed(e.into()))?;
        return Err(Error::AlreadyMounted {
            fs_type: mount.fs_type.clone(),
            source: PathBuf::from(&mount.source),
            point: canonical,
        });
    }
    if !canonical.metadata().map_err(failed)?.is_dir() {
        return Err(Error::NotDirectory(point.to_owned()));
    }
    Ok(canonical)
}

/// How long another start on the same mountpoint may take from its last check to its mount.
const PATIENCE: Duration = Duration::from_secs(5);

/// Locks the directory against other starts, which must not mount between our check and our mount.
/// None where it cannot be read, or where somebody holds a lock for another purpose: mounting does
/// not depend on it.
pub(super) fn lock(point: &Path) -> Option<Flock<File>> {
    let start = Instant::now();
    let mut directory =
        File::options().read(true).custom_flags(libc::O_DIRECTORY).open(point).ok()?;
    while start.elapsed() < PATIENCE {
        match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Some(lock),
            Err((back, Errno::EWOULDBLOCK)) => directory = back,
            Err(_) => return None,
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

/// The error that names the dead mount, which may be a directory above `point`.
fn dead(point: &Path) -> Error {
    let absolute = std::path::absolute(point).unwrap_or_else(|_| point.to_owned());
    let mounts = mountinfo::read().unwrap_or_default();
    let mount = mountinfo::fuse_around(&mounts, &absolute).map(|m| m.point.clone());
    Error::Dead(mount.unwrap_or(absolute))
}
