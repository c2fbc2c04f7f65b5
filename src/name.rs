//! File names: what the name of a key or tensor becomes in a directory, and back.
//!
//! A name is used as it is, but for what cannot be a file name or would be unsafe in one: `/`, `%`,
//! control characters, and the names `.`, `..` and the empty one. Those are escaped with `%`, which
//! itself always is, so that every other use of `%` is ours: `%empty`, `%~` before the hash of a
//! name that was cut, `%#2` after the second of two equal names.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod unique;

pub use unique::{Ordinals, Unique};

use std::borrow::Cow;

/// Longest file name that Linux takes, bytes.
pub const MAX: usize = 255;

/// What stands for the empty name.
const EMPTY: &[u8] = b"%empty";

/// Escapes a name in full, however long the result is.
pub fn escape(name: &[u8]) -> Cow<'_, [u8]> {
    match name {
        b"" => return Cow::Borrowed(EMPTY),
        b"." => return Cow::Borrowed(b"%2E"),
        b".." => return Cow::Borrowed(b"%2E%2E"),
        _ => {}
    }
    if !name.iter().any(|&b| is_suspect(b)) {
        return Cow::Borrowed(name);
    }
    let mut escaped = Vec::with_capacity(name.len() + 16);
    let mut before = 0;
    for (i, &byte) in name.iter().enumerate() {
        // U+0080 to U+009F are the bytes C2 80 to C2 9F.
        let c1 = match byte {
            0xC2 => name.get(i + 1).is_some_and(|b| (0x80..=0x9F).contains(b)),
            0x80..=0x9F => before == 0xC2,
            _ => false,
        };
        if c1 || matches!(byte, 0..0x20 | 0x7F | b'/' | b'%') {
            escaped.push(b'%');
            escaped.extend([byte >> 4, byte & 15].map(hex_digit));
        } else {
            escaped.push(byte);
        }
        before = byte;
    }
    Cow::Owned(escaped)
}

/// The name that [`escape`] made `escaped` of; None where it made no such thing.
pub fn unescape(escaped: &[u8]) -> Option<Vec<u8>> {
    if escaped == EMPTY {
        return Some(Vec::new());
    }
    let mut name = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_first_chunk::<2>()?;
            let [high, low] = digits.map(hex_value);
            name.push(high? << 4 | low?);
            rest = after;
        } else {
            name.push(byte);
        }
    }
    (escape(&name) == escaped).then_some(name)
}

/// The file name of the `ordinal`th (from 1) entry of a name, with an `ending` such as `.npy` or
/// none: at most [`MAX`] bytes. A longer one is cut between characters and escapes, and says so with
/// the hash of the unescaped name.
pub fn file_name<'a>(name: &'a [u8], ordinal: u32, ending: &str) -> Cow<'a, [u8]> {
    let escaped = escape(name);
    if ordinal <= 1 && ending.is_empty() && escaped.len() <= MAX {
        return escaped;
    }
    let mut tail = if ordinal > 1 { format!("%#{ordinal}{ending}") } else { ending.to_owned() };
    let mut whole = escaped.into_owned();
    if whole.len() + tail.len() > MAX {
        tail.insert_str(0, &format!("%~{:016x}", fnv1a_64(name)));
        whole.truncate(cut(&whole, MAX.saturating_sub(tail.len())));
    }
    whole.extend_from_slice(tail.as_bytes());
    Cow::Owned(whole)
}

/// The last place up to `limit` where an escaped name may be cut.
fn cut(escaped: &[u8], limit: usize) -> usize {
    let splits = |at: usize| {
        (1..6).any(|back| at.checked_sub(back).is_some_and(|start| unit(escaped, start) > back))
    };
    (0..=limit).rev().find(|&at| !splits(at)).unwrap_or(0)
}

/// Length of the escape or character that starts at `start`; 1 for a byte that starts neither. Only a
/// character, U+0080 to U+009F, is escaped with a first byte of C2.
fn unit(escaped: &[u8], start: usize) -> usize {
    let rest = escaped.get(start..).unwrap_or_default();
    match rest {
        [b'%', b'C', b'2', ..] => 6,
        [b'%', ..] => 3,
        [0..0x80, ..] => 1,
        _ => {
            let four = rest.get(..4).unwrap_or(rest);
            let valid = four.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            valid.chars().next().map_or(1, char::len_utf8)
        }
    }
}

/// Whether a byte may have to be escaped: all that must be, and the bytes of U+0080 to U+009F.
fn is_suspect(byte: u8) -> bool {
    matches!(byte, 0..0x20 | 0x7F | b'/' | b'%' | 0xC2)
}

fn hex_digit(nibble: u8) -> u8 {
    nibble + if nibble < 10 { b'0' } else { b'A' - 10 }
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// FNV-1a with 64 bits, by its published offset basis and prime.
fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
