//! Going to the background, and telling the waiting parent when the mount is ready.
//!
//! The child does all the work, from opening the model on, with the terminal's stderr for what goes
//! wrong; the parent only waits. So nothing is done twice, and no thread exists when forking.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::statfs::{FUSE_SUPER_MAGIC, statfs};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, chdir, dup3_raw, fork, pipe2};

use super::error::Error;
use crate::message::plain;

/// Which side of the fork this is.
pub(super) enum Side {
    Parent(Child),
    Child(Ready),
}

/// The child, to the waiting parent.
pub(super) struct Child {
    pid: Pid,
    pipe: File,
}

/// Where to report that the mount is ready; nowhere in the foreground.
pub(super) struct Ready(Option<(File, File)>);

/// Forks. Must be called while this process has one thread.
pub(super) fn start() -> io::Result<Side> {
    let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
    // SAFETY: this process has one thread, so the child's copy of it is whole.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(Side::Parent(Child { pid: child, pipe: ours.into() })),
        ForkResult::Child => {
            drop(ours);
            nix::unistd::setsid()?;
            // A daemon that kept what it inherited would hold other programs' locks and pipes.
            let pipe = close_all_but(theirs)?.into();
            // Opened while there is nothing to undo: who reads our output waits for us to close it.
            Ok(Side::Child(Ready(Some((pipe, null()?)))))
        }
    }
}

impl Child {
    /// Waits until the mount is ready, and checks from this side that it answers. Otherwise the
    /// child has said why, and its exit status is passed on.
    pub fn wait(mut self, mountpoint: &Path) -> Result<ExitCode, Error> {
        // In a deleted directory there is none; the child says so.
        let path = std::path::absolute(mountpoint).unwrap_or_else(|_| mountpoint.to_owned());
        match self.pipe.read_exact(&mut [0]) {
            Ok(()) => match statfs(&path) {
                Ok(shown) if shown.filesystem_type() == FUSE_SUPER_MAGIC => Ok(ExitCode::SUCCESS),
                // The mount has gone already, and this is the directory under it.
                Ok(_) => Err(Error::Silent(path, Errno::ENOTCONN)),
                Err(e) => Err(Error::Silent(path, e)),
            },
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => match waitpid(self.pid, None) {
                Ok(WaitStatus::Exited(_, code)) => Ok(ExitCode::from(code as u8)),
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    Err(Error::Killed(path, signal.as_str().to_owned()))
                }
                Ok(other) => Err(Error::Killed(path, format!("{other:?}"))),
                Err(e) => Err(Error::Io(path, e.into())),
            },
            Err(e) => Err(Error::Io(path, e)),
        }
    }
}

impl Ready {
    /// In the foreground nobody waits.
    pub fn foreground() -> Ready {
        Ready(None)
    }

    /// Lets go of the terminal and the working directory, then tells the parent.
    ///
    /// # Errors
    /// The parent has gone (Ctrl-C): nobody wants this mount any more.
    pub fn report(self) -> io::Result<()> {
        let Some((mut pipe, null)) = self.0 else { return Ok(()) };
        // Before the report: who reads this program's output to its end waits for us to close it.
        silence(&null);
        pipe.write_all(b".")
    }
}

/// What takes the standard streams' place: /dev/null or, in a system without one, a pipe that nobody
/// writes to.
pub(super) fn null() -> io::Result<File> {
    match File::options().read(true).write(true).open("/dev/null") {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(pipe2(OFlag::O_CLOEXEC)?.0.into()),
        opened => opened.map_err(|e| io::Error::other(format!("/dev/null: {}", plain(&e)))),
    }
}

/// Points the standard streams at `null` and leaves the working directory.
pub(super) fn silence(null: &File) {
    // Neither failure matters enough to end a mount that works.
    let _ = chdir("/");
    let _ = nix::unistd::dup2_stdin(null);
    let _ = nix::unistd::dup2_stdout(null);
    let _ = nix::unistd::dup2_stderr(null);
}

/// Closes every descriptor but the standard ones and `keep`, which gets the first free number.
pub(super) fn close_all_but(keep: OwnedFd) -> io::Result<OwnedFd> {
    const FIRST: i32 = 3;
    let moved = if keep.as_raw_fd() == FIRST {
        keep
    } else {
        // SAFETY: whatever had this number is nothing this program opened and still uses.
        unsafe { dup3_raw(keep, FIRST, OFlag::O_CLOEXEC) }?
    };
    // SAFETY: a system call without pointers. This process has one thread, and nothing it uses later
    // is open at a number above FIRST. On a kernel without the call (before 5.9) they stay open.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST + 1, u32::MAX, 0) };
    Ok(moved)
}
