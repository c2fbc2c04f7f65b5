//! What a daemon that root started keeps of root's privileges (capabilities(7)).

use log::debug;
use nix::errno::Errno;

/// To unmount.
const SYS_ADMIN: u32 = 21;

/// To open its log file anew wherever it is.
const DAC_OVERRIDE: u32 = 1;

/// The layout of the sets below, `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// Capabilities 0 to 31 in the first of two, 32 to 63 in the second.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Lets go of all but what is needed from now on. Must be called before there are other threads,
/// which keep what they have. An ordinary user has nothing to let go of.
pub(super) fn drop_unneeded() {
    let header = Header { version: VERSION, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: the call reads a header and writes two sets, of the layout that its version names.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) };
    let needed = [1 << SYS_ADMIN | 1 << DAC_OVERRIDE, 0];
    for (set, needed) in sets.iter_mut().zip(needed) {
        let kept = set.permitted & needed;
        *set = Sets { effective: kept, permitted: kept, inheritable: 0 };
    }
    // SAFETY: the call reads a header and two sets, of the layout that its version names.
    let set = || unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) };
    if got != 0 || set() != 0 {
        debug!("privileges stay as they are: {}", Errno::last().desc());
    }
}
