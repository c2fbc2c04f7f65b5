//! `fusermount3`, the setuid helper that mounts and unmounts for ordinary users (fusermount3(1)).
//!
//! It is given one end of a socket pair by number in `_FUSE_COMMFD` and sends the opened
//! `/dev/fuse` through it once the mount is made.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, socketpair,
};

use super::error::Error;
use crate::message::shown;

/// Names of the helper, the present one first.
const NAMES: [&str; 2] = ["fusermount3", "fusermount"];

/// Where it is looked for besides PATH, which services and containers often cut short.
const DIRECTORIES: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Mounts on `point` with a comma-separated option list.
pub(super) fn mount(point: &Path, options: &[u8]) -> Result<OwnedFd, Error> {
    let program = find().ok_or_else(|| Error::NoFusermount(point.to_owned()))?;
    let failed = |e: io::Error| Error::Io(program.clone(), e);
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
            .map_err(|e| failed(e.into()))?;
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|e| failed(e.into()))?;
    let child = Command::new(&program)
        .arg("-o")
        .arg(OsStr::from_bytes(options))
        .arg("--")
        .arg(point)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    drop(theirs);
    let device = receive(&ours);
    let output = child.wait_with_output().map_err(failed)?;
    let words = String::from_utf8_lossy(&output.stderr);
    device.map_err(|e| {
        let last = words.lines().rfind(|l| !l.trim().is_empty());
        let words = last.map_or_else(|| format!("fusermount3: {}", e.desc()), str::to_owned);
        Error::Fusermount(point.to_owned(), words)
    })
}

/// Detaches the mount at `point`, which must be this user's.
pub(super) fn unmount(point: &Path) -> io::Result<()> {
    let program = find().ok_or_else(|| io::Error::other("fusermount3 not found"))?;
    let output = Command::new(program)
        .args(["-u", "-z", "--"])
        .arg(point)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("fusermount3 failed");
    Err(io::Error::other(shown(Path::new(last))))
}

/// `$FUSERMOUNT_PATH`, or the first of its names that can be run.
pub(super) fn find() -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
    };
    if let Some(path) = env::var_os("FUSERMOUNT_PATH") {
        return Some(PathBuf::from(path)).filter(runs);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = || env::split_paths(&path).chain(DIRECTORIES.map(PathBuf::from));
    NAMES.iter().flat_map(|name| directories().map(move |d| d.join(name))).find(runs)
}

/// The descriptor that arrives on `socket`; an error when the helper closes it without sending one.
fn receive(socket: &OwnedFd) -> nix::Result<OwnedFd> {
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let mut control = nix::cmsg_space!(i32);
    let message = loop {
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(socket.as_raw_fd(), &mut data, Some(&mut control), flags) {
            Err(Errno::EINTR) => {}
            other => break other?,
        }
    };
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = part
            && let Some(&fd) = fds.first()
        {
            // SAFETY: the kernel has just made this descriptor for us and nobody else knows of it.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Err(Errno::ECONNRESET)
}
