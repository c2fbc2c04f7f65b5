//! The table of `ls -l`: type, bytes, name and, where there is more to say, shape or value.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::paint::Paint;
use crate::cli::open::Opened;
use crate::gguf::{Tensor, TensorType, Value};
use crate::message::shown;
use crate::source::ReadError;
use crate::tree::Node;
use crate::view::{File, Scratch, Views};

/// Characters shown of a value.
const VALUE: usize = 40;

/// Names up to this many characters are padded to the longest of them; longer ones stand out.
const NAME: usize = 40;

/// One entry.
pub(super) struct Row<'a> {
    kind: String,
    /// None for a folder that is no tensor's.
    bytes: Option<u64>,
    name: &'a [u8],
    is_dir: bool,
    /// Shape or value.
    detail: String,
}

impl<'a> Row<'a> {
    pub fn new(opened: &Opened, ino: u64, name: &'a [u8]) -> Result<Row<'a>, ReadError> {
        let Opened { tree, views, .. } = opened;
        let model = &views.model;
        let (mut kind, mut bytes, mut detail) = ("folder".to_owned(), None, String::new());
        let is_dir = match tree.node(ino) {
            Some(Node::File(file)) => {
                bytes = match views.size(file) {
                    Err(ReadError::TooLarge { .. }) => None,
                    size => Some(size?),
                };
                kind = if Views::is_text(file) { "text" } else { "data" }.into();
                match file {
                    File::Key(key) => {
                        let entry = model.metadata.get(key as usize);
                        kind = entry.map_or_else(String::new, |entry| value_type(&entry.value));
                        if bytes.is_some() {
                            detail = value(views, file)?;
                        }
                    }
                    File::Npy(tensor) => {
                        detail = model
                            .tensors
                            .get(tensor as usize)
                            .map_or_else(String::new, |t| shape(opened, t));
                    }
                    File::Model(_) | File::Tensor(..) => {}
                }
                false
            }
            _ => {
                if let Some(tensor) = tree.tensor_of(ino) {
                    kind = tensor_type(tensor);
                    bytes = Some(tensor.raw_bytes);
                    detail = shape(opened, tensor);
                }
                true
            }
        };
        Ok(Row { kind, bytes, name, is_dir, detail })
    }

    fn bytes(&self) -> String {
        self.bytes.map_or_else(|| "-".into(), |bytes| bytes.to_string())
    }

    /// Columns that the name takes; about as many on the terminal.
    fn name_width(&self) -> usize {
        String::from_utf8_lossy(self.name).chars().count()
    }
}

/// `u32`, `string`, `f32[4096]`.
fn value_type(value: &Value) -> String {
    match value {
        Value::Array(array) => format!("{}[{}]", array.element.name(), array.len),
        other => other.value_type().name().into(),
    }
}

/// `Q4_K`, `unknown(99)`: without a blank, so that columns can be counted.
fn tensor_type(tensor: &Tensor) -> String {
    match tensor.ty {
        TensorType::Known(ty) => ty.name.into(),
        TensorType::Unknown(id) => format!("unknown({id})"),
    }
}

/// `[4096, 32000]`, as numpy has it.
fn shape(opened: &Opened, tensor: &Tensor) -> String {
    let dims: Vec<u64> = opened.views.model.dims(tensor).iter().rev().copied().collect();
    format!("{dims:?}")
}

/// The beginning of a value, on one line and without control characters.
fn value(views: &Views, file: File) -> Result<String, ReadError> {
    let mut scratch = Scratch::default();
    // A character is at most four bytes.
    let bytes = views.read(file, 0, 4 * (VALUE + 1), &mut scratch)?;
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let shown = shown(Path::new(OsStr::from_bytes(text))).replace("\\n", " ");
    let mut chars = shown.chars();
    let start: String = chars.by_ref().take(VALUE).collect();
    Ok(if chars.next().is_some() { start + "…" } else { start })
}

/// Writes the rows in columns as wide as they need to be.
pub(super) fn write(rows: &[Row], paint: &Paint, out: &mut impl Write) -> io::Result<()> {
    let widest = |width: fn(&Row) -> usize| rows.iter().map(width).max().unwrap_or(0);
    let kind = widest(|row| row.kind.len());
    let bytes = widest(|row| row.bytes().len());
    let name = widest(|row| Some(row.name_width()).filter(|width| *width <= NAME).unwrap_or(0));
    for row in rows {
        paint.faint(&format!("{:<kind$}  {:>bytes$}  ", row.kind, row.bytes()), out)?;
        paint.name(row.name, row.is_dir, out)?;
        if !row.detail.is_empty() {
            let pad = name.saturating_sub(row.name_width());
            write!(out, "{:pad$}  {}", "", row.detail)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}
