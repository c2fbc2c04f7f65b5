//! A mount that is ours, and taking exactly that one away again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use log::{debug, warn};
use nix::errno::Errno;
use nix::mount::MntFlags;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statfs::statfs;

use super::{fusermount, mountinfo};
use crate::message::shown;

/// How much the kernel reads ahead for a sequential reader, KiB. The filesystem can only lower what
/// the kernel offers (128); root can raise it from outside. Twice that makes half the requests; more
/// saves nothing that can be measured, and a page touched alone through mmap costs as much.
const READ_AHEAD_KIB: &str = "256";

/// Our mount, known by its number and its device. Both stay ours while the connection lasts, even if
/// it is moved or something else is mounted on top; after that the kernel gives them to others.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    id: u32,
    device: String,
    connection: Arc<OwnedFd>,
}

impl Attached {
    /// Learns which mount is ours, right after mounting on `point`. Asks nothing of the mount itself:
    /// nobody serves it yet.
    pub fn find(point: &Path, connection: &OwnedFd) -> io::Result<Attached> {
        let mounts = mountinfo::read()?;
        let ours = mountinfo::top(&mounts, point).filter(|m| m.is_fuse());
        let ours = ours.ok_or_else(|| io::Error::other("mounted, but not listed as mounted"))?;
        let connection = Arc::new(connection.try_clone()?);
        Ok(Attached { id: ours.id, device: ours.device.clone(), connection })
    }

    /// Raises the kernel's read-ahead for this mount if this user may. Only once the first request is
    /// answered, since that sets it to the kernel's own limit.
    pub fn raise_read_ahead(&self) {
        let file = format!("/sys/class/bdi/{}/read_ahead_kb", self.device);
        if let Err(e) = std::fs::write(&file, READ_AHEAD_KIB) {
            debug!("read-ahead stays as it is: {file}: {e}");
        }
    }

    /// Detaches the mount: the path is free at once, and who still holds a file keeps it until the
    /// session ends. Does nothing if it has gone, and nothing if something is mounted on top of it
    /// or inside it, since that would go as well.
    pub fn detach(&self) {
        let Some(point) = self.point() else { return };
        let flags = MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW;
        let done = match nix::mount::umount2(&point, flags) {
            Err(Errno::EPERM) => fusermount::unmount(&point),
            other => other.map_err(io::Error::from),
        };
        if let Err(e) = done {
            warn!("{}: cannot unmount: {e}", shown(&point));
        }
    }

    /// Where it is mounted now, if it can be detached there.
    fn point(&self) -> Option<PathBuf> {
        let mounts = mountinfo::read().ok()?;
        let ours = mounts.iter().find(|m| m.id == self.id && m.device == self.device)?;
        if mountinfo::has_children(&mounts, ours) {
            warn!("{}: left in place, something else is mounted on it", shown(&ours.point));
            return None;
        }
        // Asked after the table was read: with the connection alive, the numbers in it were ours.
        (!self.has_ended() || is_dead(&ours.point)).then(|| ours.point.clone())
    }

    /// Whether the kernel has ended the connection, or this process has closed it.
    fn has_ended(&self) -> bool {
        let mut connection = [PollFd::new(self.connection.as_fd(), PollFlags::empty())];
        poll(&mut connection, PollTimeout::ZERO) != Ok(0)
    }
}

/// Whether what is mounted at `point` has nobody who serves it.
fn is_dead(point: &Path) -> bool {
    matches!(statfs(point), Err(Errno::ENOTCONN | Errno::ECONNABORTED))
}
