//! The model's bytes: open files, their mappings, and the one gate through which everything is read.
//!
//! What is only handed to the kernel comes from the mapping ([`Source::mapped`]): the kernel's copy
//! of a page that has gone fails with EFAULT and harms nobody. What this process computes with is
//! taken by `pread` ([`Source::bytes`]), since touching such a page here would be SIGBUS.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memmap2::Mmap;

use crate::message::plain;

/// Why bytes of the model could not be had; a reader of the mount sees EIO for each.
#[derive(Debug)]
pub enum ReadError {
    /// The range runs past what the file now holds.
    Missing {
        /// End of the range asked for.
        end: u64,
        /// Present size of the file, bytes.
        file: u64,
    },
    /// The disk or the filesystem below said so.
    Io(io::Error),
    /// The range is of text that would take too long to make.
    TooLarge {
        /// Most bytes of the model that are made into text.
        most: u64,
    },
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadError::Missing { end, file } => {
                write!(f, "needs bytes up to {end}, file has {file}")
            }
            ReadError::Io(e) => f.write_str(&plain(e)),
            ReadError::TooLarge { most } => {
                write!(f, "too large for text, of which values of {most} bytes together are made")
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(e: io::Error) -> Self {
        ReadError::Io(e)
    }
}

/// Positioned reads, the little that parsing needs: a file, or bytes in memory in tests.
pub trait ReadAt {
    /// Fills `buf` from `offset` as far as the data goes; returns the number of bytes read, less
    /// than `buf.len()` only at the end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Size in bytes.
    fn size(&self) -> u64;
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|o| self.get(o..)).unwrap_or_default();
        let n = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }

    fn size(&self) -> u64 {
        self.len() as u64
    }
}

/// One open file of the model.
#[derive(Debug)]
pub struct Shard {
    /// Absolute path, for messages and `info`; never opened again.
    pub path: PathBuf,
    /// Size when it was opened, bytes.
    pub bytes: u64,
    /// Time of last modification when it was opened.
    pub modified: SystemTime,
    file: File,
    /// None for an empty file, which cannot be mapped.
    map: Option<Mmap>,
}

impl Shard {
    /// Opens and maps a regular file read-only. Touches none of its pages.
    ///
    /// # Errors
    /// What `open`, `fstat` or `mmap` say; `InvalidInput` for anything but a regular file (a FIFO is
    /// not waited for).
    pub fn open(path: &Path) -> io::Result<Shard> {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
            .open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            let kind = if meta.is_dir() { "is a directory" } else { "is a pipe or a device" };
            let message = format!("{kind}, not a regular file");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let bytes = meta.size();
        // SAFETY: the mapping is private to this module and its bytes are never read in user space:
        // `mapped` lends them only to be copied by the kernel, so neither a shrinking file (SIGBUS)
        // nor a changing one (a data race) is ever observed by Rust code.
        let map = if bytes == 0 { None } else { Some(unsafe { Mmap::map(&file)? }) };
        let path = std::path::absolute(path)?;
        let modified = meta.modified()?;
        Ok(Shard { path, bytes, modified, file, map })
    }

    /// Fills `buf` from `offset`, whole or an error.
    fn fill(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        match self.file.read_exact_at(buf, offset) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(ReadError::Missing {
                end: offset.saturating_add(buf.len() as u64),
                file: self.file.metadata().map(|m| m.size()).unwrap_or(0),
            }),
            Err(e) => Err(e.into()),
        }
    }
}

impl ReadAt for Shard {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|r| !r.is_empty()) {
            match self.file.read_at(rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn size(&self) -> u64 {
        self.bytes
    }
}

/// The files of one model, in shard order.
#[derive(Debug)]
pub struct Source {
    /// At least one.
    pub shards: Vec<Shard>,
}

impl Source {
    fn shard(&self, shard: u16) -> Result<&Shard, ReadError> {
        self.shards.get(usize::from(shard)).ok_or(ReadError::Missing { end: 0, file: 0 })
    }

    /// The bytes `range` of a shard, read into `buf`, to compute with. `buf` keeps its capacity
    /// from call to call, so that a warmed-up thread allocates nothing.
    ///
    /// # Errors
    /// [`ReadError::Missing`] if the file does not hold the whole range (now), else the disk's error.
    pub fn bytes<'a>(
        &self,
        shard: u16,
        range: Range<u64>,
        buf: &'a mut Vec<u8>,
    ) -> Result<&'a mut [u8], ReadError> {
        let file = self.shard(shard)?;
        let missing = || ReadError::Missing { end: range.end, file: file.bytes };
        let len = range.end.saturating_sub(range.start);
        if range.end > file.bytes && len > 0 {
            return Err(missing());
        }
        let len = usize::try_from(len).map_err(|_| missing())?;
        if buf.len() < len {
            buf.resize(len, 0);
        }
        let out = buf.get_mut(..len).ok_or_else(missing)?;
        file.fill(range.start, out)?;
        Ok(out)
    }

    /// The bytes `range` of a shard as a slice of the mapping, **only to be handed to the kernel**.
    ///
    /// # Errors
    /// [`ReadError::Missing`] if the file does not hold the whole range: its present size is asked
    /// for each time, because the tail of the last page reads as zeros once the file has shrunk.
    pub fn mapped(&self, shard: u16, range: Range<u64>) -> Result<&[u8], ReadError> {
        let file = self.shard(shard)?;
        if range.is_empty() {
            return Ok(&[]);
        }
        let now = file.file.metadata()?.size();
        let missing = || ReadError::Missing { end: range.end, file: now };
        if range.end > now.min(file.bytes) {
            return Err(missing());
        }
        let start = usize::try_from(range.start).map_err(|_| missing())?;
        let end = usize::try_from(range.end).map_err(|_| missing())?;
        file.map.as_ref().and_then(|m| m.get(start..end)).ok_or_else(missing)
    }
}
