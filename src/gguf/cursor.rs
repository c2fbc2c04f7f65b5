//! A checked reader over the header: bounds, byte order and the length widths of every version.
//!
//! It reads through a window, so that memory stays small, and skips what nobody needs: numbers and
//! long strings of the metadata are never read.

use super::error::Rule;
use super::{Endian, Layout, Name};
use crate::source::ReadAt;

/// Bytes asked of the file at once while it is read from front to back.
const WINDOW: usize = 128 << 10;

/// Bytes asked of the file after a jump, when it is not known that more will be needed.
const AFTER_JUMP: usize = 4 << 10;

/// Most bytes read of one header. Those of the largest models are about 20 MB, so a header that makes
/// the reader walk further (billions of empty strings in a sparse file) is hostile.
const MAX_WALK: u64 = 256 << 20;

/// Longest key or tensor name, in bytes: what the document allows for keys.
const MAX_NAME: u64 = 65535;

/// The bytes of one file, from front to back.
pub(super) struct Cursor<'f, R: ?Sized> {
    file: &'f R,
    size: u64,
    layout: Layout,
    /// Where the next byte is in the file.
    pos: u64,
    /// The window: `buf[at..end]` are the file's bytes from `pos`.
    buf: Box<[u8]>,
    at: usize,
    end: usize,
    jumped: bool,
    walked: u64,
}

impl<'f, R: ReadAt + ?Sized> Cursor<'f, R> {
    pub(super) fn new(file: &'f R) -> Self {
        let layout = Layout { version: 3, endian: Endian::Little };
        let buf = vec![0; WINDOW].into_boxed_slice();
        let size = file.size();
        Cursor { file, size, layout, pos: 0, buf, at: 0, end: 0, jumped: false, walked: 0 }
    }

    /// From here on, numbers and lengths are read as this layout has them.
    pub(super) fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Where the next byte is, from the start of the file.
    pub(super) fn position(&self) -> u64 {
        self.pos
    }

    /// Bytes from here to the end of the file.
    pub(super) fn left(&self) -> u64 {
        self.size.saturating_sub(self.pos)
    }

    /// The window from here on: `n` bytes at least. `n` must be at most [`AFTER_JUMP`].
    fn window(&mut self, n: usize, part: &'static str) -> Result<&[u8], Rule> {
        if self.end - self.at < n {
            let ends = Rule::Ends { part, needs: n as u64, left: self.left() };
            if n as u64 > self.left() {
                return Err(ends);
            }
            if self.walked > MAX_WALK {
                return Err(Rule::Walk { limit: MAX_WALK });
            }
            self.buf.copy_within(self.at..self.end, 0);
            self.end -= self.at;
            self.at = 0;
            let want = if self.jumped { AFTER_JUMP } else { WINDOW };
            self.jumped = false;
            let rest = self.buf.get_mut(self.end..want.max(n)).unwrap_or_default();
            let got = self.file.read_at(self.pos.saturating_add(self.end as u64), rest)?;
            self.end += got.min(rest.len());
            self.walked += got as u64;
            if self.end < n {
                return Err(ends);
            }
        }
        Ok(self.buf.get(self.at..self.end).unwrap_or_default())
    }

    /// Steps over `n` bytes, which must be there.
    pub(super) fn skip(&mut self, n: u64, part: &'static str) -> Result<(), Rule> {
        if n > self.left() {
            return Err(Rule::Length { part, bytes: n.into(), left: self.left() });
        }
        self.pos += n;
        match usize::try_from(n) {
            Ok(n) if n <= self.end - self.at => self.at += n,
            _ => {
                self.at = 0;
                self.end = 0;
                self.jumped = true;
            }
        }
        Ok(())
    }

    /// The next `N` bytes as they are in the file.
    pub(super) fn bytes<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N], Rule> {
        let bytes = self.window(N, part)?.first_chunk().copied().unwrap_or([0; N]);
        self.at += N;
        self.pos += N as u64;
        Ok(bytes)
    }

    /// The next number's bytes, least significant first.
    pub(super) fn number<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N], Rule> {
        let mut bytes = self.bytes(part)?;
        if self.layout.endian == Endian::Big {
            bytes.reverse();
        }
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, part: &'static str) -> Result<u32, Rule> {
        Ok(u32::from_le_bytes(self.number(part)?))
    }

    pub(super) fn u64(&mut self, part: &'static str) -> Result<u64, Rule> {
        Ok(u64::from_le_bytes(self.number(part)?))
    }

    /// A count, length or dimension: 32 bits in version 1, 64 bits later.
    pub(super) fn count(&mut self, part: &'static str) -> Result<u64, Rule> {
        if self.layout.version == 1 { Ok(self.u32(part)?.into()) } else { self.u64(part) }
    }

    /// Appends a length-prefixed name to `names`; nothing if it fails.
    pub(super) fn name(&mut self, names: &mut Vec<u8>) -> Result<Name, Rule> {
        let len = self.count("the length of its name")?;
        if len > self.left() {
            return Err(Rule::Length { part: "name", bytes: len.into(), left: self.left() });
        }
        if len > MAX_NAME {
            return Err(Rule::NameLength { len, most: MAX_NAME });
        }
        let start = names.len();
        let len = len as usize;
        while names.len() - start < len {
            match self.window(1, "its name") {
                Ok(window) => {
                    let n = window.len().min(len - (names.len() - start));
                    names.extend_from_slice(window.get(..n).unwrap_or_default());
                    self.skip(n as u64, "name")?;
                }
                Err(rule) => {
                    names.truncate(start);
                    return Err(rule);
                }
            }
        }
        // The index's budget keeps the arena far below 4 GiB.
        Ok(Name { start: start as u32, len: len as u32 })
    }

    /// Steps over `n` length-prefixed strings. Vocabularies have hundreds of thousands, so lengths
    /// are taken straight from the window.
    pub(super) fn skip_strings(&mut self, n: u64) -> Result<(), Rule> {
        let Layout { version, endian } = self.layout;
        let width = self.layout.length_bytes();
        let mut strings = n;
        while strings > 0 {
            let window = self.window(width, "the length of a string in it")?;
            let mut at = 0;
            while strings > 0 {
                let Some(bytes) = window.get(at..at + width) else { break };
                let len = match (version, endian) {
                    (1, Endian::Little) => read_u32(bytes, u32::from_le_bytes),
                    (1, Endian::Big) => read_u32(bytes, u32::from_be_bytes),
                    (_, Endian::Little) => read_u64(bytes, u64::from_le_bytes),
                    (_, Endian::Big) => read_u64(bytes, u64::from_be_bytes),
                };
                // A string that ends outside the window is left to the checked steps below.
                let room = window.len() - at - width;
                let Ok(len) = usize::try_from(len) else { break };
                if len > room {
                    break;
                }
                at += width + len;
                strings -= 1;
            }
            self.skip(at as u64, "string")?;
            if at == 0 {
                let len = self.count("the length of a string in it")?;
                self.skip(len, "string")?;
                strings -= 1;
            }
        }
        Ok(())
    }
}

fn read_u32(bytes: &[u8], from: fn([u8; 4]) -> u32) -> u64 {
    bytes.first_chunk().map_or(0, |b| from(*b)).into()
}

fn read_u64(bytes: &[u8], from: fn([u8; 8]) -> u64) -> u64 {
    bytes.first_chunk().map_or(0, |b| from(*b))
}
