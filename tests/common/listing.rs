//! Directories listed as the kernel gives them, with places to go back to.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Entries as getdents64(2) gives them through a buffer of this size: cookie of the next, and name.
pub fn getdents(directory: &File, buffer: usize) -> io::Result<Vec<(i64, Vec<u8>)>> {
    let mut bytes = vec![0u8; buffer];
    // SAFETY: the kernel writes at most `buffer` bytes.
    let n = unsafe {
        libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), bytes.as_mut_ptr(), buffer)
    };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut entries = Vec::new();
    let mut rest = &bytes[..n as usize];
    while let Some(head) = rest.first_chunk::<19>() {
        let (entry, others) = rest.split_at(u16::from_le_bytes([head[16], head[17]]).into());
        let name = entry[19..].split(|&byte| byte == 0).next().unwrap_or_default();
        entries.push((i64::from_le_bytes(*rest[8..].first_chunk().unwrap()), name.to_vec()));
        rest = others;
    }
    Ok(entries)
}
