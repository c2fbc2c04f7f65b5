//! How paths and the system's errors are said in messages, which are one line.

use std::io;
use std::path::Path;

use nix::errno::Errno;

/// A path without control characters.
pub fn shown(path: &Path) -> String {
    let mut text = String::new();
    for c in path.to_string_lossy().chars() {
        if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

/// The system's message without Rust's "(os error N)".
pub fn plain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => Errno::from_raw(code).desc().to_owned(),
        None => error.to_string(),
    }
}
