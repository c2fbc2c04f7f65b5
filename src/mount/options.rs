//! Mount options: what `-o` takes, from a person or from mount(8).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::message::shown;

/// What the options given so far ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Every user may look inside, not only the mounting one.
    pub allow_other: bool,
    /// Root may look inside too.
    pub allow_root: bool,
    /// Detach the mount when the daemon dies, however it dies.
    pub auto_unmount: bool,
    /// Owner shown, instead of the mounting user.
    pub uid: Option<u32>,
    /// Group shown, instead of the mounting user's.
    pub gid: Option<u32>,
    /// Source shown by findmnt and df, instead of the model's path.
    pub fsname: Option<OsString>,
    /// Type shown after `fuse.`, instead of `gguf-fs`.
    pub subtype: Option<OsString>,
    /// Mount with `noexec`.
    pub noexec: bool,
    /// Mount with `noatime`.
    pub noatime: bool,
}

/// Options that mount(8), fstab and older FUSE programs pass and that change nothing here: the mount
/// is read-only, its files are no devices and no programs, and mount(8) has dealt with the rest.
const IGNORED: [&str; 38] = [
    "ro",
    "rw",
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "sync",
    "async",
    "dirsync",
    "iversion",
    "noiversion",
    "mand",
    "nomand",
    "silent",
    "loud",
    "_netdev",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "defaults",
    "nofail",
    "nonempty",
    "default_permissions",
];

/// The same, with a value.
const IGNORED_VALUES: [&str; 4] = ["user", "comment", "max_read", "blksize"];

impl Options {
    /// Adds the comma-separated options of one `-o`. A backslash takes the next character as it is,
    /// so that `fsname=` can hold a comma. Later options win.
    ///
    /// # Errors
    /// A line that names the option which is unknown or has a bad value.
    pub fn add(&mut self, list: &OsStr) -> Result<(), String> {
        for option in split(list.as_bytes()) {
            self.add_one(&option)?;
        }
        Ok(())
    }

    fn add_one(&mut self, option: &[u8]) -> Result<(), String> {
        let shown = shown(Path::new(OsStr::from_bytes(option)));
        let (name, value) = match option.iter().position(|&b| b == b'=') {
            Some(at) => (&option[..at], Some(&option[at + 1..])),
            None => (option, None),
        };
        match (name, value) {
            (b"", None) => {}
            (b"allow_other", None) => self.allow_other = true,
            (b"allow_root", None) => self.allow_root = true,
            (b"auto_unmount", None) => self.auto_unmount = true,
            (b"noexec", None) => self.noexec = true,
            (b"exec", None) => self.noexec = false,
            (b"noatime", None) => self.noatime = true,
            (b"atime", None) => self.noatime = false,
            (b"uid", Some(value)) => self.uid = Some(id(&shown, value)?),
            (b"gid", Some(value)) => self.gid = Some(id(&shown, value)?),
            (b"fsname", Some(value)) => self.fsname = Some(name_of("fsname", value)?),
            (b"subtype", Some(value)) => self.subtype = Some(name_of("subtype", value)?),
            (name, None) if IGNORED.iter().any(|i| i.as_bytes() == name) => {}
            (name, Some(_)) if IGNORED_VALUES.iter().any(|i| i.as_bytes() == name) => {}
            _ if name.starts_with(b"x-") || name.starts_with(b"X-") => {}
            _ => return Err(format!("unknown mount option '{shown}'")),
        }
        Ok(())
    }
}

/// Longest name, bytes: all that mount(2) is given fits into a page.
const MAX_NAME: usize = 2048;

fn name_of(option: &str, value: &[u8]) -> Result<OsString, String> {
    if value.is_empty() && option == "fsname" {
        return Err("mount option 'fsname=' must not be empty".into());
    }
    if value.len() > MAX_NAME {
        return Err(format!("mount option '{option}' is longer than {MAX_NAME} bytes"));
    }
    Ok(OsString::from_vec(value.into()))
}

/// The last number means "none" to the kernel (chown(2)).
fn id(shown: &str, value: &[u8]) -> Result<u32, String> {
    std::str::from_utf8(value)
        .ok()
        .and_then(|v| v.parse().ok())
        .filter(|id| *id != u32::MAX)
        .ok_or_else(|| format!("mount option '{shown}' needs a number below {}", u32::MAX))
}

/// Splits at commas, undoing the backslashes.
fn split(list: &[u8]) -> Vec<Vec<u8>> {
    let mut options = vec![Vec::new()];
    let mut bytes = list.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, options.last_mut()) {
            (b',', _) => options.push(Vec::new()),
            (b'\\', Some(last)) => last.extend(bytes.next()),
            (_, Some(last)) => last.push(byte),
            (_, None) => {}
        }
    }
    options
}

/// The inverse of [`split`] for one value.
pub(super) fn escape(value: &OsStr) -> Vec<u8> {
    let mut escaped = Vec::new();
    for &byte in value.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(list: &str) -> Result<Options, String> {
        let mut options = Options::default();
        options.add(OsStr::new(list)).map(|()| options)
    }

    #[test]
    fn what_fstab_and_mount_pass_is_taken() {
        let generic =
            "ro,noauto,nofail,user,nosuid,nodev,noexec,_netdev,x-systemd.automount,noatime";
        let parsed = options(generic).unwrap();
        assert_eq!(parsed, Options { noexec: true, noatime: true, ..Options::default() });
        assert_eq!(
            options("rw,dev,suid,exec,atime,relatime,auto,users,defaults").unwrap(),
            Options::default()
        );
        assert_eq!(options("").unwrap(), Options::default());
        assert_eq!(options("user=joe,x-a=b,comment=,,").unwrap(), Options::default());
    }

    #[test]
    fn an_unknown_option_is_named() {
        for (list, named) in [
            ("ro,frobnicate", "frobnicate"),
            ("ro=1", "ro=1"),
            ("uid=joe", "uid=joe"),
            ("uid", "uid"),
            ("fro\nb", "fro\\nb"),
            ("gid=4294967295", "gid=4294967295"),
            ("fsname=", "fsname="),
        ] {
            assert!(options(list).unwrap_err().contains(&format!("'{named}'")), "{list}");
        }
    }

    #[test]
    fn a_value_keeps_escaped_commas_and_backslashes() {
        let name = r"/a,b\c=d";
        let escaped = String::from_utf8(escape(OsStr::new(name))).unwrap();
        let parsed = options(&format!("fsname={escaped},uid=7")).unwrap();
        assert_eq!(parsed.fsname.as_deref(), Some(OsStr::new(name)));
        assert_eq!(parsed.uid, Some(7));
    }
}
