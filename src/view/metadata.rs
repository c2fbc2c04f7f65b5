//! `metadata/<key>`: a value as text.

use std::ops::Range;
use std::sync::OnceLock;

use super::text::{self, Count, Lazy, Sink, Text, Window};
use super::value::{Cursor, Renderer, Style, scalar};
use super::{Scratch, clamp, part};
use crate::gguf::{Array, Layout, Value};
use crate::model::Model;
use crate::source::{ReadError, Source};

/// Source bytes up to which an array has no index: it is rendered from its start, in a few hundred
/// microseconds, so that thousands of small arrays cost little memory.
const SMALL: u64 = 64 << 10;

/// Most check-points of all arrays together, some 16 MB.
const ALL_POINTS: usize = 200_000;

/// Source bytes of the values that are made into text, all together: a pass over them takes seconds.
/// Sparse files announce arrays that would take hours.
const ALL_BYTES: u64 = 2 << 30;

const TOO_LARGE: ReadError = ReadError::TooLarge { most: ALL_BYTES };

/// What is known of the arrays' texts, by key.
#[derive(Debug)]
pub struct Indexes {
    /// Indexes of the large arrays.
    large: Vec<(u32, Lazy<Cursor>)>,
    /// Sizes of the small arrays as they were first measured, by key: the kernel goes by them.
    sizes: Vec<OnceLock<u32>>,
    /// Keys of the values that are never scanned.
    too_large: Vec<u32>,
}

impl Indexes {
    /// An empty one for every large array.
    pub fn new(model: &Model) -> Indexes {
        let large = |value: &Value| matches!(value, Value::Array(a) if a.span.len > SMALL);
        let keys = (0..).zip(&model.metadata).filter(|(_, entry)| large(&entry.value));
        let keys: Vec<u32> = keys.map(|(key, _)| key).collect();
        let each = (ALL_POINTS / keys.len().max(1)).min(text::MAX_POINTS);
        let large = keys.into_iter().map(|key| (key, Lazy::new(each))).collect();
        let sizes = model.metadata.iter().map(|_| OnceLock::new()).collect();
        Indexes { large, sizes, too_large: too_large(model) }
    }

    fn of(&self, key: u32) -> Option<&Lazy<Cursor>> {
        let at = self.large.binary_search_by_key(&key, |entry| entry.0).ok()?;
        self.large.get(at).map(|entry| &entry.1)
    }

    /// Size of the text of a small array, bytes: the first time, it is measured.
    fn small_size(&self, key: u32, lines: &Lines, source: &Source) -> Result<u64, ReadError> {
        let known = self.sizes.get(key as usize).ok_or_else(text::changed)?;
        if let Some(size) = known.get() {
            return Ok((*size).into());
        }
        let size = text::measure(lines, &mut Window::new(source, &mut Vec::new()))?;
        // At most 26 bytes of text for a byte of the file.
        Ok((*known.get_or_init(|| size as u32)).into())
    }

    /// Whether a value is too large to be scanned: an array then has no text, and JSON has neither an
    /// array nor a string.
    pub fn is_too_large(&self, key: u32) -> bool {
        self.too_large.binary_search(&key).is_ok()
    }
}

/// The keys of the values that do not fit into [`ALL_BYTES`] with those before them.
fn too_large(model: &Model) -> Vec<u32> {
    let mut left = ALL_BYTES;
    let bytes = |value: &Value| match value {
        Value::String(span) | Value::Array(Array { span, .. }) => span.len,
        _ => 0,
    };
    let refused = (0..).zip(&model.metadata).filter(|(_, entry)| {
        let fits = left.checked_sub(bytes(&entry.value));
        left = fits.unwrap_or(left);
        fits.is_none()
    });
    refused.map(|(key, _)| key).collect()
}

/// An array as lines, one an element.
struct Lines {
    layout: Layout,
    array: Array,
}

impl Text for Lines {
    type State = Cursor;

    fn start(&self) -> Cursor {
        Cursor::array(&self.array)
    }

    fn step<S: Sink>(
        &self,
        state: &mut Cursor,
        window: &mut Window<'_>,
        out: &mut S,
    ) -> Result<bool, ReadError> {
        Renderer { layout: self.layout, style: Style::Lines }.step(state, window, out)
    }
}

/// Size in bytes, if that takes no long scan that has not been made yet.
pub fn cheap_size(model: &Model, indexes: &Indexes, key: u32) -> Option<u64> {
    match indexes.of(key) {
        Some(lazy) => lazy.known_size(),
        None => size(model, indexes, key).ok(),
    }
}

/// Size in bytes.
///
/// # Errors
/// An array had to be scanned and could not, or is too large for that.
pub fn size(model: &Model, indexes: &Indexes, key: u32) -> Result<u64, ReadError> {
    let Some(entry) = model.metadata.get(key as usize) else { return Ok(0) };
    match entry.value {
        Value::String(span) => Ok(span.len + 1),
        Value::Array(_) if indexes.is_too_large(key) => Err(TOO_LARGE),
        Value::Array(array) => {
            let lines = Lines { layout: model.layout(0), array };
            match indexes.of(key) {
                Some(lazy) => lazy.size(&lines, &model.source),
                None => indexes.small_size(key, &lines, &model.source),
            }
        }
        ref number => {
            let mut count = Count::default();
            scalar(number, &mut count);
            Ok(count.0 + 1)
        }
    }
}

/// The bytes `range` of the text, as far as it goes.
pub fn read<'a>(
    model: &'a Model,
    indexes: &Indexes,
    key: u32,
    range: Range<u64>,
    scratch: &'a mut Scratch,
) -> Result<&'a [u8], ReadError> {
    let Some(entry) = model.metadata.get(key as usize) else { return Ok(&[]) };
    let Scratch { text: out, source, .. } = scratch;
    match entry.value {
        Value::String(span) => {
            let range = clamp(range, span.len + 1);
            let string = range.start..range.end.min(span.len);
            let n = (range.end - range.start) as usize;
            let stored = span.offset + string.start..span.offset + string.end;
            if string.end == range.end {
                return Ok(model.source.bytes(0, stored, out)?);
            }
            model.source.bytes(0, stored, out)?;
            out.resize(out.len().max(n), 0);
            if let Some(last) = n.checked_sub(1).and_then(|last| out.get_mut(last)) {
                *last = b'\n';
            }
            Ok(out.get(..n).unwrap_or_default())
        }
        Value::Array(_) if indexes.is_too_large(key) => Err(TOO_LARGE),
        Value::Array(array) => {
            let lines = Lines { layout: model.layout(0), array };
            if let Some(lazy) = indexes.of(key) {
                return lazy.read(&lines, range, &model.source, source, out);
            }
            let range = clamp(range, indexes.small_size(key, &lines, &model.source)?);
            let len = range.end - range.start;
            let mut window = Window::new(&model.source, source);
            let (place, _) = text::render(&lines, (0, lines.start()), range, &mut window, out)?;
            out.get(place).filter(|text| text.len() as u64 == len).ok_or_else(text::changed)
        }
        ref number => {
            out.clear();
            scalar(number, out);
            out.push(b'\n');
            Ok(part(out, range))
        }
    }
}
