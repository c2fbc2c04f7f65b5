//! Strings inside of other text: JSON strings, YAML scalars, lines.

use super::text::Sink;

/// Appends the inside of a JSON string: bytes that are not UTF-8 become U+FFFD, one a maximal
/// invalid sequence. Returns how many bytes were used: all, or, if more are to come, all but a
/// character that may be incomplete (at most 3 bytes).
pub fn json<S: Sink>(bytes: &[u8], more: bool, out: &mut S) -> usize {
    if bytes.is_ascii() {
        out.escaped(bytes, json_width, |byte| json_escape(byte.into()));
        return bytes.len();
    }
    let mut used = 0;
    for chunk in bytes.utf8_chunks() {
        json_utf8(chunk.valid(), out);
        used += chunk.valid().len();
        let invalid = chunk.invalid().len();
        if invalid > 0 {
            if more && used + invalid == bytes.len() {
                break;
            }
            out.bytes("\u{FFFD}".as_bytes());
            used += invalid;
        }
    }
    used
}

/// Appends a whole JSON string with its quotes.
pub fn json_string<S: Sink>(bytes: &[u8], out: &mut S) {
    out.bytes(b"\"");
    json(bytes, false, out);
    out.bytes(b"\"");
}

fn json_utf8<S: Sink>(mut text: &str, out: &mut S) {
    while let Some((at, special)) = text.char_indices().find(|(_, c)| is_special(*c)) {
        let (plain, rest) = text.split_at(at);
        out.bytes(plain.as_bytes());
        out.bytes(json_escape(special).as_bytes());
        text = rest.get(special.len_utf8()..).unwrap_or_default();
    }
    out.bytes(text.as_bytes());
}

/// Length of an ASCII character in a JSON string.
#[inline]
fn json_width(ascii: u8) -> u8 {
    match ascii {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 | 0x7F => 6,
        _ => 1,
    }
}

/// A special character in a JSON string.
fn json_escape(special: char) -> Escape {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    let short = match special {
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        other => other as u8,
    };
    if matches!(special, '"' | '\\' | '\n' | '\r' | '\t') {
        return Escape([b'\\', short, 0, 0, 0, 0], 2);
    }
    let digit = |shift: u32| HEX.get((special as usize >> shift) & 15).copied().unwrap_or(b'0');
    Escape([b'\\', b'u', digit(12), digit(8), digit(4), digit(0)], 6)
}

/// Some bytes of text.
pub struct Escape([u8; 6], usize);

impl Escape {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or_default()
    }
}

/// What JSON must escape, what a terminal would obey, and what YAML takes for the end of a line or
/// for no character at all.
fn is_special(c: char) -> bool {
    matches!(c, '"' | '\\' | '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
        || c.is_control()
}

/// Appends (a part of) a string with backslash, newline, carriage return and, where they matter, tabs
/// as escapes of two characters.
pub fn line<const TABS: bool, S: Sink>(bytes: &[u8], out: &mut S) {
    let special = |byte| matches!(byte, b'\\' | b'\n' | b'\r') || TABS && byte == b'\t';
    out.escaped(bytes, |byte| 1 + u8::from(special(byte)), |byte| json_escape(byte.into()));
}

/// Appends a YAML scalar that reads back as this string: plain, or else quoted as JSON does it.
pub fn yaml<S: Sink>(bytes: &[u8], out: &mut S) {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_plain(text) => out.bytes(bytes),
        _ => json_string(bytes, out),
    }
}

/// Whether YAML, 1.1 or 1.2, reads `text` after `key: ` as the string it is.
fn is_plain(text: &str) -> bool {
    let mut chars = text.chars();
    let (first, second) = (chars.next(), chars.next());
    let starts_well = match first {
        None => false,
        Some('-' | '?' | ':') => second.is_some_and(|c| c != ' '),
        Some(c) => !" ,[]{}#&*!|>'\"%@`".contains(c),
    };
    let special = |c| is_special(c) && !matches!(c, '"' | '\\');
    starts_well
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.contains(special)
        && !is_keyword(text)
        && !looks_numeric(text)
}

/// Nulls, bools, merge and value marks, and the floats that have no digits.
fn is_keyword(text: &str) -> bool {
    const KEYWORDS: [&str; 13] =
        ["~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "=", "<<", "---"];
    KEYWORDS.iter().any(|k| text.eq_ignore_ascii_case(k))
        || matches!(text.to_ascii_lowercase().trim_start_matches(['+', '-']), ".inf" | ".nan")
}

/// Numbers in any base, times and dates: all begin with a digit, maybe after a sign or a point, and
/// have no other characters than these.
fn looks_numeric(text: &str) -> bool {
    text.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_hexdigit() || "+-._: oOxXtTzZ".contains(c))
}
