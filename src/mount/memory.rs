//! Whether the memory is to be had that serving will take: fuser takes it in its threads, where a
//! limit (setrlimit(2)) would abort the program and leave a dead mount.

/// fuser's buffer of each thread, with the page that it aligns by.
const BUFFER: usize = (16 << 20) + 4096;

/// Stack of each thread, and what answering takes.
const STACK: usize = 4 << 20;

/// Address space that the C library sets aside for a thread's allocations, without using it.
const ARENA: usize = 128 << 20;

/// What all threads need together.
const MARGIN: usize = 16 << 20;

/// As many threads as fit, at most `wanted`; None if not even one does.
pub(super) fn threads(wanted: usize) -> Option<usize> {
    (1..=wanted).rev().find(|n| {
        // A single thread makes do with the program's own arena.
        fits(n * (BUFFER + STACK) + MARGIN, libc::PROT_READ | libc::PROT_WRITE)
            && (*n == 1 || fits(n * (BUFFER + STACK + ARENA) + MARGIN, libc::PROT_NONE))
    })
}

/// Whether `bytes` can be mapped now.
fn fits(bytes: usize, protection: i32) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping where the kernel likes, which nothing refers to; it is unmapped whole.
    unsafe {
        let address = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        address != libc::MAP_FAILED && libc::munmap(address, bytes) == 0
    }
}
