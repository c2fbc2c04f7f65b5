//! Metadata values as text, piece by piece: an array as lines, or any value as JSON.
//!
//! Lengths and types inside an array are taken from the file again, which may have changed since it
//! was parsed: nothing is believed that would lead outside of the value.

use super::number::{Bool, Number};
use super::quote;
use super::text::{PIECE, Sink, Window, changed};
use crate::gguf::{Array, Endian, Layout, Span, Value, ValueType};
use crate::source::ReadError;

/// Levels of arrays that the parser lets through.
const MAX_DEPTH: usize = 4;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// An array: each element on a line of its own, arrays in it as JSON.
    Lines,
    /// JSON on one line.
    Json,
}

/// Where the rendering of a value stands.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// Next source byte, absolute.
    at: u64,
    /// End of the value's source bytes.
    end: u64,
    /// Bytes left of the string that is being rendered.
    string: Option<u64>,
    /// Open arrays.
    depth: u8,
    /// Elements' types and numbers left, by level.
    element: [ValueType; MAX_DEPTH],
    left: [u64; MAX_DEPTH],
}

impl Cursor {
    /// After the last byte of any value.
    pub const DONE: Cursor = Cursor {
        at: 0,
        end: 0,
        string: None,
        depth: 0,
        element: [ValueType::U8; MAX_DEPTH],
        left: [0; MAX_DEPTH],
    };

    /// Before the first element of an array.
    pub fn array(array: &Array) -> Cursor {
        let Array { element, len, span } = *array;
        let mut cursor = Cursor { at: span.offset, end: span.offset + span.len, ..Cursor::DONE };
        // The first level is always there.
        let _ = cursor.open(element, len);
        cursor
    }

    fn string(span: Span) -> Cursor {
        let end = span.offset + span.len;
        Cursor { at: span.offset, end, string: Some(span.len), ..Cursor::DONE }
    }

    fn open(&mut self, element: ValueType, len: u64) -> Result<(), ReadError> {
        let level = usize::from(self.depth);
        *self.element.get_mut(level).ok_or_else(changed)? = element;
        *self.left.get_mut(level).ok_or_else(changed)? = len;
        self.depth += 1;
        Ok(())
    }

    /// Type of the innermost open array's elements.
    fn element(&self) -> Option<ValueType> {
        self.element.get(usize::from(self.depth).checked_sub(1)?).copied()
    }

    /// Elements left in the innermost open array.
    fn left(&mut self) -> Option<&mut u64> {
        self.left.get_mut(usize::from(self.depth).checked_sub(1)?)
    }

    /// Whether there is more to render.
    pub fn more(&self) -> bool {
        self.depth > 0 || self.string.is_some()
    }
}

/// Renders a scalar as JSON, or the beginning of a string or an array, whose rest the cursor has.
pub fn begin_json<S: Sink>(value: &Value, out: &mut S) -> Cursor {
    match value {
        Value::String(span) => {
            out.bytes(b"\"");
            return Cursor::string(*span);
        }
        Value::Array(array) => {
            out.bytes(b"[");
            return Cursor::array(array);
        }
        Value::F32(v) => out.number(Json(*v)),
        Value::F64(v) => out.number(Json(*v)),
        other => scalar(other, out),
    }
    Cursor::DONE
}

/// Renders values of a file of this layout, in one style.
#[derive(Clone, Copy, Debug)]
pub struct Renderer {
    /// How the file is to be read.
    pub layout: Layout,
    /// How its values are written.
    pub style: Style,
}

impl Renderer {
    /// Renders a little more; false once all is there.
    pub fn step<S: Sink>(
        &self,
        c: &mut Cursor,
        window: &mut Window<'_>,
        out: &mut S,
    ) -> Result<bool, ReadError> {
        if let Some(left) = c.string {
            let n = left.min(PIECE as u64);
            let piece = window.bytes(c.at, n as usize, c.end)?;
            let used = if self.quotes(c.depth) {
                quote::json(piece, n < left, out) as u64
            } else {
                quote::line::<false, S>(piece, out);
                n
            };
            c.at += used;
            c.string = Some(left - used);
            if used == left {
                c.string = None;
                if self.quotes(c.depth) {
                    out.bytes(b"\"");
                }
                self.separate(c, out);
            }
            return Ok(c.more());
        }
        match (c.element(), c.left().copied()) {
            (Some(_), Some(0)) => {
                c.depth -= 1;
                if self.quotes(c.depth + 1) {
                    out.bytes(b"]");
                }
                self.separate(c, out);
            }
            (Some(element), Some(left)) => match element {
                ValueType::U8 => self.numbers::<u8, S>(c, left, window, out)?,
                ValueType::I8 => self.numbers::<i8, S>(c, left, window, out)?,
                ValueType::U16 => self.numbers::<u16, S>(c, left, window, out)?,
                ValueType::I16 => self.numbers::<i16, S>(c, left, window, out)?,
                ValueType::U32 => self.numbers::<u32, S>(c, left, window, out)?,
                ValueType::I32 => self.numbers::<i32, S>(c, left, window, out)?,
                ValueType::F32 => self.numbers::<f32, S>(c, left, window, out)?,
                ValueType::Bool => self.numbers::<Bool, S>(c, left, window, out)?,
                ValueType::U64 => self.numbers::<u64, S>(c, left, window, out)?,
                ValueType::I64 => self.numbers::<i64, S>(c, left, window, out)?,
                ValueType::F64 => self.numbers::<f64, S>(c, left, window, out)?,
                ValueType::String => self.strings(c, left, window, out)?,
                ValueType::Array => self.array(c, window, out)?,
            },
            _ => {}
        }
        Ok(c.more())
    }

    /// Whether elements at this depth are JSON.
    fn quotes(&self, depth: u8) -> bool {
        self.style == Style::Json || depth > 1
    }

    /// What comes after an element, once it no longer counts as left.
    fn separate<S: Sink>(&self, c: &mut Cursor, out: &mut S) {
        let json = self.quotes(c.depth);
        match c.left() {
            Some(_) if !json => out.bytes(b"\n"),
            Some(1..) => out.bytes(b","),
            _ => {}
        }
    }

    fn numbers<N: Number, S: Sink>(
        &self,
        c: &mut Cursor,
        left: u64,
        window: &mut Window<'_>,
        out: &mut S,
    ) -> Result<(), ReadError> {
        let n = left.min((PIECE / N::SIZE) as u64);
        let raw = window.bytes(c.at, n as usize * N::SIZE, c.end)?;
        let endian = self.layout.endian;
        if let Some(left) = c.left() {
            *left -= n;
        }
        c.at += raw.len() as u64;
        if !self.quotes(c.depth) {
            out.numbers::<N>(raw, endian, b'\n');
            return Ok(());
        }
        if n < left {
            out.numbers::<Json<N>>(raw, endian, b',');
        } else if let Some((most, last)) = raw.split_at_checked(raw.len() - N::SIZE) {
            out.numbers::<Json<N>>(most, endian, b',');
            out.number(<Json<N>>::read(last, endian));
        }
        Ok(())
    }

    /// Renders as many whole strings as there are in a piece, or begins a long one.
    fn strings<S: Sink>(
        &self,
        c: &mut Cursor,
        mut left: u64,
        window: &mut Window<'_>,
        out: &mut S,
    ) -> Result<(), ReadError> {
        let n = (c.end - c.at).min(PIECE as u64);
        let piece = window.bytes(c.at, n as usize, c.end)?;
        let json = self.quotes(c.depth);
        let mut rest = piece;
        let mut long = None;
        while left > 0 {
            let Some((len, after)) = self.length(rest) else { break };
            let Some((string, after)) =
                usize::try_from(len).ok().and_then(|len| after.split_at_checked(len))
            else {
                if rest.len() == piece.len() {
                    long = Some((len, after));
                }
                break;
            };
            left -= 1;
            rest = after;
            if json {
                quote::json_string(string, out);
                if left > 0 {
                    out.bytes(b",");
                }
            } else {
                quote::line::<false, S>(string, out);
                out.bytes(b"\n");
            }
        }
        if let Some((len, after)) = long {
            left -= 1;
            rest = after;
            c.string = Some(len);
            if json {
                out.bytes(b"\"");
            }
        }
        let used = piece.len() - rest.len();
        if used == 0 {
            return Err(changed());
        }
        c.at += used as u64;
        if let Some(remaining) = c.left() {
            *remaining = left;
        }
        Ok(())
    }

    /// Begins an array in an array.
    fn array<S: Sink>(
        &self,
        c: &mut Cursor,
        window: &mut Window<'_>,
        out: &mut S,
    ) -> Result<(), ReadError> {
        let n = 4 + self.layout.length_bytes();
        let head = window.bytes(c.at, n, c.end)?;
        let (id, rest) = head.split_first_chunk().ok_or_else(changed)?;
        let id = match self.layout.endian {
            Endian::Little => u32::from_le_bytes(*id),
            Endian::Big => u32::from_be_bytes(*id),
        };
        let element = ValueType::from_id(id).ok_or_else(changed)?;
        let (len, _) = self.length(rest).ok_or_else(changed)?;
        c.at += n as u64;
        if let Some(left) = c.left() {
            *left -= 1;
        }
        c.open(element, len)?;
        out.bytes(b"[");
        Ok(())
    }

    /// The length or count at the start of `bytes`, and what follows.
    fn length<'a>(&self, bytes: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let (length, rest) = bytes.split_at_checked(self.layout.length_bytes())?;
        let length = match length.len() {
            4 => u64::from(u32::read(length, self.layout.endian)),
            _ => u64::read(length, self.layout.endian),
        };
        Some((length, rest))
    }
}

/// A number as JSON, which has no infinities: those are strings.
#[derive(Clone, Copy)]
struct Json<N>(N);

impl<N: Number> Number for Json<N> {
    const SIZE: usize = N::SIZE;

    #[inline]
    fn read(bytes: &[u8], endian: Endian) -> Self {
        Json(N::read(bytes, endian))
    }

    fn write(self, out: &mut Vec<u8>) {
        let quote: &[u8] = if self.0.is_finite() { b"" } else { b"\"" };
        out.extend_from_slice(quote);
        self.0.write(out);
        out.extend_from_slice(quote);
    }

    #[inline]
    fn width(self) -> u32 {
        self.0.width() + if self.0.is_finite() { 0 } else { 2 }
    }
}

/// Renders a scalar that is not a string, as its file has it; nothing for the others.
pub fn scalar<S: Sink>(value: &Value, out: &mut S) {
    match *value {
        Value::U8(v) => out.number(v),
        Value::I8(v) => out.number(v),
        Value::U16(v) => out.number(v),
        Value::I16(v) => out.number(v),
        Value::U32(v) => out.number(v),
        Value::I32(v) => out.number(v),
        Value::F32(v) => out.number(v),
        Value::Bool(v) => out.number(Bool(v)),
        Value::U64(v) => out.number(v),
        Value::I64(v) => out.number(v),
        Value::F64(v) => out.number(v),
        Value::String(_) | Value::Array(_) => {}
    }
}
