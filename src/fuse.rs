//! The filesystem as the kernel asks for it: requests in, tree and views asked, replies out.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use log::{debug, warn};

use crate::gguf::Printable;
use crate::model::Model;
use crate::source::ReadError;
use crate::tree::{Node, Tree};
use crate::view::{File, Scratch, Views};

/// For how long the kernel may keep names and attributes: nothing ever changes. (136 years: the
/// kernel adds it to its clock, so it must not overflow.)
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Nothing is ever given a number that something else had.
const GENERATION: Generation = Generation(0);

/// Requests for read-ahead and asynchronous I/O that the kernel may have under way. With the default
/// of 16 a few readers that run ahead would make all others wait.
const MAX_BACKGROUND: u16 = 64;

/// `st_blksize` of text, which readers take as the size of their buffer.
const TEXT_BLOCK: u32 = 4096;

/// `st_blksize` of tensors: the largest request the kernel makes.
const DATA_BLOCK: u32 = 1 << 20;

/// The block that statfs counts in.
const STATFS_BLOCK: u32 = 4096;

/// `f_namemax`.
const NAME_MAX: u32 = 255;

/// Attributes that other parts of the system define, and that this filesystem cannot have.
const UNSUPPORTED_XATTRS: [&str; 3] =
    ["security.selinux", "system.posix_acl_access", "system.posix_acl_default"];

/// Asked of the kernel, each for itself, so that one it lacks costs only that one.
const WANTED: [InitFlags; 5] = [
    // Listings with attributes, when attributes are what the reader is after.
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    // Lookups in one directory need not wait for each other, nor direct reads of one file.
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
    // An aborted connection is told from an unmounted one.
    InitFlags::FUSE_ABORT_ERROR,
];

/// Who owns the files.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// User shown.
    pub uid: u32,
    /// Group shown.
    pub gid: u32,
    /// User and group whose the root directory is, with mode 0500, to keep all others but root out.
    pub closed_root: Option<(u32, u32)>,
}

/// The mounted model.
pub struct Gguf {
    tree: Tree,
    views: Views,
    owner: Owner,
    modified: SystemTime,
    no_open: bool,
    no_opendir: bool,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// What a reader of the mount sees.
enum Failure {
    NotFound,
    NameTooLong,
    IsDirectory,
    NotDirectory,
    Read(ReadError),
}

impl From<ReadError> for Failure {
    fn from(e: ReadError) -> Failure {
        Failure::Read(e)
    }
}

impl Failure {
    fn errno(&self) -> Errno {
        match self {
            Failure::NotFound => Errno::ENOENT,
            Failure::NameTooLong => Errno::ENAMETOOLONG,
            Failure::IsDirectory => Errno::EISDIR,
            Failure::NotDirectory => Errno::ENOTDIR,
            Failure::Read(_) => Errno::EIO,
        }
    }
}

impl Gguf {
    /// The tree of `model`, with the time of its (first) file.
    pub fn new(model: Arc<Model>, modified: SystemTime, owner: Owner) -> Gguf {
        let tree = Tree::new(model.clone());
        let views = Views::new(model);
        Gguf { tree, views, owner, modified, no_open: false, no_opendir: false }
    }

    fn file(&self, ino: INodeNo) -> Result<File, Failure> {
        match self.tree.node(ino.0) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir) => Err(Failure::IsDirectory),
            None => Err(Failure::NotFound),
        }
    }

    fn directory(&self, ino: INodeNo) -> Result<u64, Failure> {
        match self.tree.node(ino.0) {
            Some(Node::Dir) => Ok(ino.0),
            Some(Node::File(_)) => Err(Failure::NotDirectory),
            None => Err(Failure::NotFound),
        }
    }

    /// The errno for a failure, of which the log has the reason.
    fn failed(&self, ino: u64, failure: &Failure) -> Errno {
        if let Failure::Read(e) = failure {
            let path = [self.tree.parent(ino), ino].map(|i| self.tree.name(i)).join(&b'/');
            debug!("{}: {e}", Printable(&path));
        }
        failure.errno()
    }

    fn attributes(&self, ino: u64) -> Result<FileAttr, Failure> {
        match self.tree.node(ino) {
            Some(Node::Dir) => Ok(self.directory_attributes(ino)),
            Some(Node::File(file)) => Ok(self.file_attributes(ino, file, self.views.size(file)?)),
            None => Err(Failure::NotFound),
        }
    }

    fn directory_attributes(&self, ino: u64) -> FileAttr {
        let open = self.attr(ino, FileType::Directory, 0o555);
        let nlink = self.tree.subdirs(ino).saturating_add(2);
        let attr = FileAttr { nlink, blksize: TEXT_BLOCK, ..open };
        match self.owner.closed_root {
            Some((uid, gid)) if ino == INodeNo::ROOT.0 => {
                FileAttr { perm: 0o500, uid, gid, ..attr }
            }
            _ => attr,
        }
    }

    fn file_attributes(&self, ino: u64, file: File, size: u64) -> FileAttr {
        let blksize = if Views::is_text(file) { TEXT_BLOCK } else { DATA_BLOCK };
        let attr = self.attr(ino, FileType::RegularFile, 0o444);
        FileAttr { size, blocks: size.div_ceil(512), blksize, ..attr }
    }

    fn attr(&self, ino: u64, kind: FileType, perm: u16) -> FileAttr {
        FileAttr {
            ino: INodeNo(ino),
            size: 0,
            blocks: 0,
            atime: self.modified,
            mtime: self.modified,
            ctime: self.modified,
            crtime: self.modified,
            kind,
            perm,
            nlink: 1,
            uid: self.owner.uid,
            gid: self.owner.gid,
            rdev: 0,
            blksize: TEXT_BLOCK,
            flags: 0,
        }
    }

    /// Calls `add` with the cookie, number, name and kind of each entry from `offset` on, until it
    /// says that the reply is full.
    fn list(&self, dir: u64, offset: u64, mut add: impl FnMut(u64, u64, &OsStr, FileType) -> bool) {
        for position in offset.. {
            let next = position.saturating_add(1);
            let full = match position {
                0 => add(next, dir, OsStr::new("."), FileType::Directory),
                1 => add(next, self.tree.parent(dir), OsStr::new(".."), FileType::Directory),
                _ => match self.tree.entry(dir, position - 2) {
                    None => return,
                    Some(entry) => {
                        let kind =
                            if entry.is_dir { FileType::Directory } else { FileType::RegularFile };
                        add(next, entry.ino, OsStr::from_bytes(&entry.name), kind)
                    }
                },
            };
            if full {
                return;
            }
        }
    }

    /// Adds an entry with its attributes. A size that only a scan of the file would tell is not
    /// worth it here: then nothing may be kept, and the kernel looks the name up when it is used.
    fn add_plus(
        &self,
        reply: &mut ReplyDirectoryPlus,
        (next, ino, name): (u64, u64, &OsStr),
    ) -> bool {
        let (attr, ttl) = match self.tree.node(ino) {
            Some(Node::File(file)) => match self.views.cheap_size(file) {
                Some(size) => (self.file_attributes(ino, file, size), FOREVER),
                None => (self.file_attributes(ino, file, 0), Duration::ZERO),
            },
            _ => (self.directory_attributes(ino), FOREVER),
        };
        reply.add(INodeNo(ino), next, name, &ttl, &attr, GENERATION)
    }
}

/// Runs what computes. A panic ends here: the reply, dropped on its way, has answered EIO, and the
/// thread goes on to the next request.
fn guarded(what: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(what)).is_err() {
        warn!("a request failed by a bug in gguf-fs");
    }
}

impl Filesystem for Gguf {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        debug!("the kernel speaks FUSE {}", config.kernel_abi());
        for flag in WANTED {
            if config.add_capabilities(flag).is_err() {
                debug!("the kernel has no {flag:?}");
            }
        }
        if let Err(limit) = config.set_max_background(MAX_BACKGROUND) {
            debug!("the kernel takes {limit} background requests");
        }
        self.no_open = config.capabilities().contains(InitFlags::FUSE_NO_OPEN_SUPPORT);
        self.no_opendir = config.capabilities().contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        guarded(|| {
            if name.len() > NAME_MAX as usize {
                return reply.error(Failure::NameTooLong.errno());
            }
            let Some(ino) = self.tree.lookup(parent.0, name.as_bytes()) else {
                // Number 0 is "no such name, and you may remember that".
                let nothing = self.attr(0, FileType::RegularFile, 0);
                return reply.entry(&FOREVER, &nothing, GENERATION);
            };
            match self.attributes(ino) {
                Ok(attr) => reply.entry(&FOREVER, &attr, GENERATION),
                Err(e) => reply.error(self.failed(ino, &e)),
            }
        });
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        guarded(|| match self.attributes(ino.0) {
            Ok(attr) => reply.attr(&FOREVER, &attr),
            Err(e) => reply.error(self.failed(ino.0, &e)),
        });
    }

    /// ENOSYS says that no open needs an answer, and that the page cache is kept from one to the next.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.no_open {
            reply.error(Errno::ENOSYS);
        } else {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        }
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.no_opendir {
            reply.error(Errno::ENOSYS);
        } else {
            let keep = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
            reply.opened(FileHandle(0), keep);
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
        guarded(|| {
            let file = match self.file(ino) {
                Ok(file) => file,
                Err(e) => return reply.error(e.errno()),
            };
            SCRATCH.with_borrow_mut(|scratch| {
                match self.views.read(file, offset, size as usize, scratch) {
                    Ok(bytes) => reply.data(bytes),
                    Err(e) => reply.error(self.failed(ino.0, &e.into())),
                }
                scratch.trim();
            });
        });
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        guarded(|| match self.directory(ino) {
            Ok(dir) => {
                self.list(dir, offset, |next, ino, name, kind| {
                    reply.add(INodeNo(ino), next, kind, name)
                });
                reply.ok();
            }
            Err(e) => reply.error(e.errno()),
        });
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        guarded(|| match self.directory(ino) {
            Ok(dir) => {
                self.list(dir, offset, |next, ino, name, _| {
                    self.add_plus(&mut reply, (next, ino, name))
                });
                reply.ok();
            }
            Err(e) => reply.error(e.errno()),
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = self.views.model.bytes().div_ceil(u64::from(STATFS_BLOCK));
        reply.statfs(blocks, 0, 0, 0, 0, STATFS_BLOCK, NAME_MAX, STATFS_BLOCK);
    }

    /// There are no extended attributes. Labels and access control lists are not even supported:
    /// told so, `ls -l` asks once, and otherwise up to three times an entry.
    fn getxattr(&self, _: &Request, _: INodeNo, name: &OsStr, _: u32, reply: ReplyXattr) {
        let unsupported = UNSUPPORTED_XATTRS.iter().any(|n| name == *n);
        reply.error(if unsupported { Errno::EOPNOTSUPP } else { Errno::ENODATA });
    }

    fn listxattr(&self, _: &Request, _: INodeNo, size: u32, reply: ReplyXattr) {
        if size == 0 { reply.size(0) } else { reply.data(&[]) }
    }
}
