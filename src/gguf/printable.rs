//! Names from the file as messages show them.

use std::fmt::{self, Write};

/// Most bytes shown of a name.
const MOST: usize = 80;

/// Shows bytes from the file on one line: plain names as they are, others quoted, with control
/// characters and bytes that are not UTF-8 escaped as in a Rust string, long ones cut.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..MOST).unwrap_or(self.0);
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"._-/".contains(b);
        let quote = if !shown.is_empty() && shown.iter().all(plain) { "" } else { "\"" };
        f.write_str(quote)?;
        for chunk in shown.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c == '\'' { f.write_char(c)? } else { write!(f, "{}", c.escape_debug())? }
            }
            for b in chunk.invalid() {
                write!(f, "\\x{b:02x}")?;
            }
        }
        f.write_str(quote)?;
        if shown.len() < self.0.len() { write!(f, "… ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::Printable;

    #[test]
    fn names_are_printed_on_one_line_without_control_characters() {
        for (name, shown) in [
            (&b"blk.0.ffn_up.weight"[..], "blk.0.ffn_up.weight"),
            (b"", "\"\""),
            (b"a b", "\"a b\""),
            (b"it's \"x\"", "\"it's \\\"x\\\"\""),
            (b"a\n\x1b[31m", "\"a\\n\\u{1b}[31m\""),
            (b"t\xff\xfe", "\"t\\xff\\xfe\""),
            ("Wörter".as_bytes(), "\"Wörter\""),
            ("\u{202e}\u{9b}".as_bytes(), "\"\\u{202e}\\u{9b}\""),
        ] {
            assert_eq!(Printable(name).to_string(), shown);
        }
        let long = Printable(&[b'n'; 1000]).to_string();
        assert_eq!(long, format!("{}… (1000 bytes)", "n".repeat(80)));
    }
}
