//! A filesystem with faults on demand: it serves one directory as it is, but for byte ranges that
//! cannot be read or are slow to come.
//!
//! It runs in a process of its own, the test program started again, since a process must not wait
//! for what it serves itself. The process lives for as long as the test holds its standard input.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner, MountOption,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, Request,
};

use crate::common::mounted::{is_root, wait_until};

/// Tells the process started again what it is for: directory, mountpoint and file of rules.
const VARIABLES: [&str; 3] = ["FAULTY_FS_DIRECTORY", "FAULTY_FS_MOUNTPOINT", "FAULTY_FS_RULES"];

/// What happens to a read that touches the bytes `from..to` of any file.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub from: u64,
    pub to: u64,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// EIO.
    Broken,
    /// The bytes, after so many milliseconds.
    Slow(u64),
}

/// The running filesystem; unmounted and gone when dropped.
pub struct FaultyFs {
    child: Child,
    mountpoint: PathBuf,
    rules: PathBuf,
}

impl FaultyFs {
    /// Serves `directory` on `mountpoint`, without faults. `rules` is where to write a file. The
    /// test named `helper` must call [`serve_if_asked`] first of all.
    pub fn mount(helper: &str, directory: &Path, mountpoint: &Path, rules: &Path) -> FaultyFs {
        fs::write(rules, "").unwrap();
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", helper])
            .envs(VARIABLES.into_iter().zip([directory, mountpoint, rules]))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let faulty = FaultyFs { child, mountpoint: mountpoint.into(), rules: rules.into() };
        let device = |path: &Path| fs::metadata(path).map(|m| m.dev()).ok();
        let outside = device(mountpoint.parent().unwrap());
        let up = wait_until(|| device(mountpoint).is_some_and(|inside| Some(inside) != outside));
        assert!(up, "the filesystem with faults does not come up (is /dev/fuse usable here?)");
        faulty
    }

    /// Has exactly these faults from now on. Forgets what the kernel has cached of the files.
    pub fn set(&self, faults: &[Fault]) {
        let lines = faults.iter().map(|fault| {
            let delay = match fault.kind {
                Kind::Broken => "broken".to_owned(),
                Kind::Slow(milliseconds) => milliseconds.to_string(),
            };
            format!("{} {} {delay}\n", fault.from, fault.to)
        });
        let new = self.rules.with_extension("new");
        fs::write(&new, lines.collect::<String>()).unwrap();
        fs::rename(new, &self.rules).unwrap();
        for entry in fs::read_dir(&self.mountpoint).unwrap() {
            // The kernel drops a file's pages when it is opened, since nothing told it to keep them.
            File::open(entry.unwrap().path()).unwrap();
        }
    }
}

impl Drop for FaultyFs {
    fn drop(&mut self) {
        let unmount: &[&str] = if is_root() { &["umount", "-l"] } else { &["fusermount3", "-uz"] };
        let _ = Command::new(unmount[0]).args(&unmount[1..]).arg(&self.mountpoint).status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves, and does not return, if this process was started by [`FaultyFs::mount`].
pub fn serve_if_asked() {
    let [Some(directory), Some(mountpoint), Some(rules)] = VARIABLES.map(env::var_os) else {
        return;
    };
    // The test holds the other end; when it goes, in whatever way, so does this process.
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut config = fuser::Config::default();
    config.mount_options = vec![MountOption::FSName("faulty".into()), MountOption::RO];
    // More than the slow reads that any test has under way.
    config.n_threads = Some(16);
    let served = Directory::open(Path::new(&directory), rules)
        .and_then(|directory| fuser::mount(directory, mountpoint, &config));
    std::process::exit(i32::from(served.is_err()));
}

/// The files of one directory by inode number, from 2 on; it has no directories in it.
struct Directory {
    files: BTreeMap<u64, (OsString, File)>,
    rules: PathBuf,
}

impl Directory {
    fn open(path: &Path, rules: OsString) -> io::Result<Directory> {
        let entries = (2..).zip(fs::read_dir(path)?);
        let files = entries.map(|(ino, entry)| {
            let entry = entry?;
            Ok((ino, (entry.file_name(), File::open(entry.path())?)))
        });
        Ok(Directory { files: files.collect::<io::Result<_>>()?, rules: rules.into() })
    }

    fn attributes(&self, ino: u64) -> Result<FileAttr, Errno> {
        let (size, kind, perm) = match self.files.get(&ino) {
            Some((_, file)) => (file.metadata()?.size(), FileType::RegularFile, 0o444),
            None if ino == INodeNo::ROOT.0 => (0, FileType::Directory, 0o555),
            None => return Err(Errno::ENOENT),
        };
        let epoch = std::time::UNIX_EPOCH;
        Ok(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(512),
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            crtime: epoch,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn bytes(&self, ino: u64, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let (_, file) = self.files.get(&ino).ok_or(Errno::ENOENT)?;
        for rule in fs::read_to_string(&self.rules)?.lines() {
            let [from, to, kind] =
                rule.split(' ').collect::<Vec<_>>().try_into().map_err(|_| Errno::EINVAL)?;
            let bound = |text: &str| text.parse::<u64>().map_err(|_| Errno::EINVAL);
            if offset >= bound(to)? || offset + u64::from(size) <= bound(from)? {
                continue;
            }
            match kind.parse() {
                Ok(milliseconds) => std::thread::sleep(Duration::from_millis(milliseconds)),
                Err(_) => return Err(Errno::EIO),
            }
        }
        let mut bytes = vec![0; size as usize];
        let read = file.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

impl Filesystem for Directory {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.files.iter().find(|(_, (file, _))| file == name);
        match found.ok_or(Errno::ENOENT).and_then(|(ino, _)| self.attributes(*ino)) {
            Ok(attributes) => reply.entry(&Duration::ZERO, &attributes, Generation(0)),
            Err(e) => reply.error(e),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino.0) {
            Ok(attributes) => reply.attr(&Duration::ZERO, &attributes),
            Err(e) => reply.error(e),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.bytes(ino.0, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(e),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        for (ino, (name, _)) in self.files.range(offset.max(2)..) {
            if reply.add(INodeNo(*ino), ino + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }
}
