//! `auto_unmount`: a small process that outlives a daemon killed hard and detaches its mount.
//!
//! It waits at the read end of a pipe whose only other end the daemon holds. An orderly daemon says
//! good-bye with a byte; one that dies says nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use nix::fcntl::OFlag;
use nix::unistd::{ForkResult, fork, pipe2};

use super::attached::Attached;
use super::background;

/// The daemon's end.
#[derive(Debug)]
pub(super) struct Watcher(File);

impl Watcher {
    /// Starts the watching process. Must be called while this process has one thread.
    pub fn start(attached: &Attached) -> io::Result<Watcher> {
        let null = background::null()?;
        let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
        // SAFETY: this process has one thread, so the child's copy of it is whole.
        if let ForkResult::Child = unsafe { fork() }? {
            watch(ours, &null, attached);
        }
        Ok(Watcher(theirs.into()))
    }

    /// Tells the watcher that nothing is left to do.
    pub fn dismiss(&self) {
        // Without the byte it looks for the mount itself and finds it gone.
        let _ = (&self.0).write_all(b".");
    }
}

fn watch(pipe: OwnedFd, null: &File, attached: &Attached) -> ! {
    let _ = nix::unistd::setsid();
    background::silence(null);
    // The daemon's connection must not stay open in here: the mount would outlive the daemon.
    let Ok(pipe) = background::close_all_but(pipe) else { std::process::exit(1) };
    let Ok(attached) = attached.seen_from_outside() else { std::process::exit(1) };
    if let Ok(0) = File::from(pipe).read(&mut [0]) {
        let _ = attached.detach();
    }
    std::process::exit(0)
}
