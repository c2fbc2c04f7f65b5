//! A mount that is ours, and taking exactly that one away again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use log::{debug, warn};
use nix::errno::Errno;
use nix::mount::MntFlags;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statfs::statfs;

use super::fusermount;
use super::mountinfo::{self, Entry, Table};
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
    /// None in a process that does not serve it.
    connection: Option<Arc<OwnedFd>>,
    table: Arc<Table>,
}

impl Attached {
    /// Learns which mount is ours, right after mounting on `point`: the one of the device that the
    /// kernel names for the connection or, before Linux 6.15 or so, the FUSE mount there whose device
    /// was not `before`. Asks nothing of the mount itself: nobody serves it yet.
    ///
    /// # Errors
    /// It cannot be told; then what was mounted is still there.
    pub fn find(
        point: &Path,
        connection: &OwnedFd,
        table: Table,
        before: &[Entry],
    ) -> io::Result<Attached> {
        let mounts = table.read()?;
        let named = device_of(connection);
        let is_ours = |m: &&Entry| match &named {
            Some(device) => m.device == *device,
            None => m.point == point && before.iter().all(|b| b.device != m.device),
        };
        let mut ours = mounts.iter().filter(|m| m.is_fuse()).filter(is_ours);
        let first = ours.next();
        // Mounts elsewhere of the same device are copies that propagation made.
        let ours = first.filter(|m| m.point == point).or_else(|| ours.find(|m| m.point == point));
        let ours = ours.or(first);
        let ours = ours.ok_or_else(|| io::Error::other("mounted, but not listed as mounted"))?;
        Ok(Attached {
            id: ours.id,
            device: ours.device.clone(),
            connection: Some(Arc::new(connection.try_clone()?)),
            table: Arc::new(table),
        })
    }

    /// The same mount, for a forked process that keeps no descriptor of this one.
    pub fn seen_from_outside(&self) -> io::Result<Attached> {
        let table = Arc::new(Table::open()?);
        Ok(Attached { id: self.id, device: self.device.clone(), connection: None, table })
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
    /// session ends. What is mounted somewhere inside goes with it, as with `umount -l`. Does nothing
    /// if it has gone, and nothing if something is mounted right on top of it, which would go as well.
    ///
    /// # Errors
    /// It is still there, or may be; a warning has said why.
    pub fn detach(&self) -> io::Result<()> {
        let point = self.point().inspect_err(|e| warn!("{}: {e}", mountinfo::TABLE))?;
        point.map_or(Ok(()), |point| unmount(&point))
    }

    /// Where it is mounted now, if it can be detached there.
    fn point(&self) -> io::Result<Option<PathBuf>> {
        let mounts = self.table.read()?;
        let ours = mounts.iter().find(|m| m.id == self.id && m.device == self.device);
        let Some(ours) = ours else { return Ok(None) };
        if mountinfo::is_covered(&mounts, ours) {
            warn!("{}: left in place, something else is mounted on it", shown(&ours.point));
            return Ok(None);
        }
        // Asked after the table was read: with the connection alive, the numbers in it were ours.
        Ok((!self.has_ended() || is_dead(&ours.point)).then(|| ours.point.clone()))
    }

    /// Whether the kernel has ended the connection, or this process has none to it.
    fn has_ended(&self) -> bool {
        let Some(connection) = &self.connection else { return true };
        let mut connection = [PollFd::new(connection.as_fd(), PollFlags::empty())];
        poll(&mut connection, PollTimeout::ZERO) != Ok(0)
    }
}

/// Detaches what has just been mounted on `point` through `connection` and was not found.
pub(super) fn undo(point: &Path, connection: OwnedFd) {
    // Without it the mount is dead, and so can be told from one that covers it.
    drop(connection);
    if is_dead(point) {
        let _ = unmount(point);
    }
}

fn unmount(point: &Path) -> io::Result<()> {
    let flags = MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW;
    let done = match nix::mount::umount2(point, flags) {
        Err(Errno::EPERM) => fusermount::unmount(point),
        other => other.map_err(io::Error::from),
    };
    done.inspect_err(|e| warn!("{}: cannot unmount: {e}", shown(point)))
}

/// The device of a connection's mount, `0:minor`, where the kernel tells.
fn device_of(connection: &OwnedFd) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", connection.as_raw_fd()));
    let info = info.ok()?;
    let minor = info.lines().find_map(|line| line.strip_prefix("fuse_connection:"))?;
    Some(format!("0:{}", minor.trim()))
}

/// Whether what is mounted at `point` has nobody who serves it.
fn is_dead(point: &Path) -> bool {
    matches!(statfs(point), Err(Errno::ENOTCONN | Errno::ECONNABORTED))
}
