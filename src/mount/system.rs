//! What the system has to offer a mount, for bug reports.

use std::fmt::Write;
use std::process::Command;

use nix::sys::utsname::uname;

use super::{device, fusermount};
use crate::message::{plain, shown};

/// Lines of `key: value`: the kernel, the device, the helper. Which version of the FUSE protocol the
/// kernel speaks it only says to a mount, whose log has it (`-v`).
pub fn system() -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    if let Ok(name) = uname() {
        let [system, release, machine] =
            [name.sysname(), name.release(), name.machine()].map(|part| part.to_string_lossy());
        let _ = writeln!(text, "kernel: {system} {release} {machine}");
    }
    let device = match device::open() {
        Ok(_) => "can be opened".into(),
        Err(e) => plain(&e),
    };
    let _ = writeln!(text, "{}: {device}", device::DEVICE);
    let _ = writeln!(text, "fusermount3: {}", helper().unwrap_or_else(|| "not found".into()));
    text
}

/// Path and version of the helper, which calls itself `fusermount3 version: 3.14.0`.
fn helper() -> Option<String> {
    let path = fusermount::find()?;
    let output = Command::new(&path).arg("--version").output().ok()?;
    let version = String::from_utf8_lossy(&output.stdout);
    let version = version.trim().rsplit(' ').next().unwrap_or_default();
    Some(format!("{} {version}", shown(&path)))
}
