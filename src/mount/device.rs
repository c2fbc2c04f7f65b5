//! From a mountpoint to a connection: `/dev/fuse` and mount(2), or `fusermount3` for who may not.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::MsFlags;

use super::error::Error;
use super::fusermount;
use super::options::{Options, escape};

/// Where the kernel offers FUSE.
pub(super) const DEVICE: &str = "/dev/fuse";

/// Type shown after `fuse.` when no option says otherwise.
const SUBTYPE: &str = "gguf-fs";

/// Mounts on `point` and returns the connection that the kernel's requests arrive on.
///
/// # Errors
/// What is missing or not allowed; then nothing is mounted.
pub(super) fn mount(point: &Path, source: &OsStr, options: &Options) -> Result<OwnedFd, Error> {
    let subtype = options.subtype.as_deref().unwrap_or(OsStr::new(SUBTYPE));
    match open() {
        Ok(device) => match direct(&device, point, source, subtype, options) {
            Ok(()) => return Ok(device.into()),
            Err(Errno::EPERM) => {}
            Err(Errno::ENODEV) => return Err(Error::NoDevice(Errno::ENODEV.into())),
            Err(e) => return Err(Error::Mount(point.to_owned(), e)),
        },
        // Where only root may open the device, the setuid helper still can.
        Err(e) if e.raw_os_error() == Some(Errno::EACCES as i32) => {}
        Err(e) => return Err(Error::NoDevice(e)),
    }
    fusermount::mount(point, &list(source, subtype, options))
}

/// A new connection, which nothing is mounted through yet. Where this is allowed, a thread may open
/// its own channel to another.
pub(super) fn open() -> io::Result<File> {
    File::options().read(true).write(true).open(DEVICE)
}

fn direct(
    device: &File,
    point: &Path,
    source: &OsStr,
    subtype: &OsStr,
    options: &Options,
) -> nix::Result<()> {
    let mut flags = MsFlags::MS_RDONLY | MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
    flags.set(MsFlags::MS_NOEXEC, options.noexec);
    flags.set(MsFlags::MS_NOATIME, options.noatime);
    let mut fs_type = b"fuse".to_vec();
    if !subtype.is_empty() {
        fs_type.push(b'.');
        fs_type.extend(subtype.as_bytes());
    }
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions{}",
        device.as_raw_fd(),
        nix::unistd::getuid(),
        nix::unistd::getgid(),
        if options.allow_other || options.allow_root { ",allow_other" } else { "" },
    );
    nix::mount::mount(Some(source), point, Some(fs_type.as_slice()), flags, Some(data.as_str()))
}

/// The same as an option list for `fusermount3`, which adds what it must.
fn list(source: &OsStr, subtype: &OsStr, options: &Options) -> Vec<u8> {
    let mut list = b"ro,nodev,nosuid,default_permissions".to_vec();
    for (wanted, name) in [
        (options.noexec, ",noexec"),
        (options.noatime, ",noatime"),
        (options.allow_other || options.allow_root, ",allow_other"),
    ] {
        if wanted {
            list.extend(name.as_bytes());
        }
    }
    for (name, value) in [(",fsname=", source), (",subtype=", subtype)] {
        if !value.is_empty() {
            list.extend(name.as_bytes());
            list.extend(escape(value));
        }
    }
    list
}
