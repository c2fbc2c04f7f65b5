//! SIGINT, SIGTERM and SIGHUP, taken by one thread that waits for them.

use std::io;
use std::thread;

use log::debug;
use nix::sys::signal::{SigSet, Signal};

/// The signals that end the program, blocked so that no thread is interrupted by them.
pub(super) struct Signals(SigSet);

impl Signals {
    /// Blocks them in this thread and all it will start.
    ///
    /// In the foreground a SIGHUP that is ignored already (nohup(1)) stays ignored: to outlive the
    /// terminal is what was asked for. A daemon has no terminal, so one sent to it is meant. An
    /// inherited "ignore" of the two others means nothing (shells set SIGINT so for `&`).
    pub fn block(foreground: bool) -> nix::Result<Signals> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        if !(foreground && is_ignored(Signal::SIGHUP)) {
            set.add(Signal::SIGHUP);
        }
        set.thread_block()?;
        Ok(Signals(set))
    }

    /// Starts the thread that waits for the first of them and then does `action`.
    pub fn then(self, action: impl FnOnce() + Send + 'static) -> io::Result<()> {
        thread::Builder::new().name("signals".into()).spawn(move || {
            if let Ok(signal) = self.0.wait() {
                debug!("{signal}");
                action();
            }
        })?;
        Ok(())
    }
}

fn is_ignored(signal: Signal) -> bool {
    let mut present = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with no new action given the call only writes the present one to `present`, and it has
    // done so when it returns 0.
    unsafe {
        libc::sigaction(signal as i32, std::ptr::null(), present.as_mut_ptr()) == 0
            && present.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
