//! What is mounted where, as /proc/self/mountinfo tells it (proc(5)).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One mount of this process's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Number of the mount, unique while it is attached.
    pub id: u32,
    /// Number of the mount it sits on.
    pub parent: u32,
    /// Device, `major:minor`; not given to another filesystem before this one has gone.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Filesystem type, with its subtype.
    pub fs_type: String,
    /// What is mounted.
    pub source: OsString,
}

impl Entry {
    pub fn is_fuse(&self) -> bool {
        self.fs_type == "fuse" || self.fs_type.starts_with("fuse.")
    }
}

/// Where the kernel lists them.
pub(super) const TABLE: &str = "/proc/self/mountinfo";

/// The list, held open: it can be read again when no descriptor is left and when /proc has gone.
#[derive(Debug)]
pub(super) struct Table(File);

impl Table {
    pub fn open() -> io::Result<Table> {
        File::open(TABLE).map(Table)
    }

    /// All mounts, as they are now.
    pub fn read(&self) -> io::Result<Vec<Entry>> {
        let mut file = &self.0;
        file.rewind()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(parse(&text))
    }
}

/// All mounts.
pub(super) fn read() -> io::Result<Vec<Entry>> {
    Table::open()?.read()
}

/// The mount that is seen at `point`, if `point` is a mountpoint.
pub(super) fn top<'a>(mounts: &'a [Entry], point: &Path) -> Option<&'a Entry> {
    mounts.iter().filter(|m| m.point == point).find(|m| !is_covered(mounts, m))
}

/// Whether something is mounted right on top of `mount`, not only somewhere inside it.
pub(super) fn is_covered(mounts: &[Entry], mount: &Entry) -> bool {
    mounts.iter().any(|m| m.parent == mount.id && m.id != mount.id && m.point == mount.point)
}

fn parse(text: &[u8]) -> Vec<Entry> {
    text.split(|&b| b == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw`: optional fields end with `-`.
fn parse_line(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|&b| b == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let device = String::from_utf8_lossy(fields.next()?).into_owned();
    let point = PathBuf::from(unescape(fields.nth(1)?));
    fields.find(|f| *f == b"-")?;
    let fs_type = unescape(fields.next()?).to_string_lossy().into_owned();
    let source = unescape(fields.next()?);
    Some(Entry { id, parent, device, point, fs_type, source })
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The kernel writes space, tab, newline, backslash and `#` as a backslash and three octal digits.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|d| first == b'\\' && d.iter().all(u8::is_ascii_digit));
        match octal {
            Some(digits) => {
                let code = digits.iter().fold(0u32, |sum, d| sum * 8 + u32::from(d - b'0'));
                bytes.push(code as u8);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// The FUSE mount that holds `path`, for an error that says only that its daemon is dead.
pub(super) fn fuse_around<'a>(mounts: &'a [Entry], path: &Path) -> Option<&'a Entry> {
    let inside = mounts.iter().filter(|m| m.is_fuse() && path.starts_with(&m.point));
    inside.max_by_key(|m| m.point.as_os_str().as_bytes().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"21 1 254:0 / / rw,relatime - ext4 /dev/root rw\n\
        30 21 0:40 / /mnt/a\\040b ro,nosuid shared:3 master:1 - fuse.gguf-fs /m\\054x\\012y.gguf ro\n\
        31 30 0:41 / /mnt/a\\040b rw - tmpfs  rw\n\
        32 30 0:42 / /mnt/a\\040b/c rw - tmpfs none rw\n\
        garbage\n";

    #[test]
    fn escapes_optional_fields_and_an_empty_source_are_read() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 4);
        let fuse = &mounts[1];
        assert_eq!((fuse.id, fuse.parent, fuse.device.as_str()), (30, 21, "0:40"));
        assert_eq!(fuse.point, Path::new("/mnt/a b"));
        assert_eq!(fuse.source, "/m,x\ny.gguf");
        assert!(fuse.is_fuse() && !mounts[2].is_fuse());
        assert_eq!(mounts[2].source, "");
    }

    #[test]
    fn the_mount_seen_at_a_path_is_the_one_nothing_sits_on() {
        let mounts = parse(TEXT);
        assert_eq!(top(&mounts, Path::new("/mnt/a b")).map(|m| m.id), Some(31));
        assert_eq!(top(&mounts, Path::new("/mnt")), None);
        assert!(is_covered(&mounts, &mounts[1]) && !is_covered(&mounts, &mounts[2]));
    }
}
