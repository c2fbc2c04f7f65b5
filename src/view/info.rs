//! `info`: what the file is, and what a tensor is. The same fields go into `model.json`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use super::text::{Count, Sink};
use super::{Scratch, f32, part, quote};
use crate::ggml;
use crate::gguf::split::ShardName;
use crate::gguf::{Endian, Oddity, Tensor, TensorType};
use crate::model::Model;
use crate::source::ReadError;

/// Most unknown types that are listed: a hostile file has as many as tensors.
const MAX_UNKNOWN: usize = 64;

/// How fields are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `key: value` lines.
    Yaml,
    /// Members of a JSON object, without its braces.
    Json,
}

/// Writes fields in one style.
struct Fields<'a, S> {
    out: &'a mut S,
    style: Style,
    first: bool,
}

impl<S: Sink> Fields<'_, S> {
    fn field(&mut self, key: &str, value: impl FnOnce(&mut S, Style)) {
        match self.style {
            Style::Yaml => self.out.bytes(key.as_bytes()),
            Style::Json => {
                self.out.bytes(if self.first { b"" } else { b", " });
                quote::json_string(key.as_bytes(), self.out);
            }
        }
        self.first = false;
        self.out.bytes(b": ");
        value(self.out, self.style);
        if self.style == Style::Yaml {
            self.out.bytes(b"\n");
        }
    }

    fn text(&mut self, key: &str, text: &[u8]) {
        self.field(key, |out, style| match style {
            Style::Yaml => quote::yaml(text, out),
            Style::Json => quote::json_string(text, out),
        });
    }

    fn number(&mut self, key: &str, number: impl itoa::Integer) {
        self.field(key, |out, _| out.decimal(number));
    }

    fn list(&mut self, key: &str, numbers: impl Iterator<Item = u64>) {
        self.field(key, |out, _| list(numbers, out));
    }
}

/// Numbers in brackets, as YAML and JSON both have it.
pub fn list<S: Sink>(numbers: impl Iterator<Item = u64>, out: &mut S) {
    out.bytes(b"[");
    for (i, number) in numbers.enumerate() {
        out.bytes(if i == 0 { b"" } else { b", " });
        out.decimal(number);
    }
    out.bytes(b"]");
}

/// Fields of the whole model.
pub fn model<S: Sink>(model: &Model, style: Style, out: &mut S) {
    let mut fields = Fields { out, style, first: true };
    let shards = &model.source.shards;
    if let Some(shard) = shards.first() {
        fields.text("file", shard.path.as_os_str().as_bytes());
    }
    if shards.len() > 1 {
        fields.number("shards", shards.len());
    }
    fields.number("bytes", model.bytes());
    if let Some(header) = model.headers.first() {
        fields.number("version", header.layout.version);
        let endian = match header.layout.endian {
            Endian::Little => "little",
            Endian::Big => "big",
        };
        fields.text("endianness", endian.as_bytes());
        fields.number("alignment", header.alignment);
    }
    fields.number("metadata", model.metadata.len());
    fields.number("tensors", model.tensors.len());
    fields.number("parameters", model.tensors.iter().map(|t| u128::from(t.elements)).sum::<u128>());
    if let Some(header) = model.headers.first() {
        fields.number("data_offset", header.data_offset);
    }
    let (types, other) = types(model);
    fields.field("types", |out, style| {
        out.bytes(b"{");
        let types = types.iter().map(|((_, name), count)| (&**name, *count));
        let other = (other > 0).then_some(("other", other));
        for (i, (name, count)) in types.chain(other).enumerate() {
            out.bytes(if i == 0 { b"" } else { b", " });
            match style {
                Style::Yaml => out.bytes(name.as_bytes()),
                Style::Json => quote::json_string(name.as_bytes(), out),
            }
            out.bytes(b": ");
            out.decimal(count);
        }
        out.bytes(b"}");
    });
}

/// How many tensors there are of each type, by its id and name (an ambiguous id may be known here and
/// unknown there), and of the unknown types beyond the first [`MAX_UNKNOWN`].
fn types(model: &Model) -> (BTreeMap<(u32, Cow<'static, str>), u64>, u64) {
    let (mut known, mut unknown) = (BTreeMap::new(), BTreeMap::new());
    let mut other = 0;
    for tensor in &model.tensors {
        let types = match tensor.ty {
            TensorType::Known(_) => &mut known,
            TensorType::Unknown(id) => {
                if unknown.len() == MAX_UNKNOWN && !unknown.contains_key(&id) {
                    other += 1;
                    continue;
                }
                &mut unknown
            }
        };
        types.entry(type_id(tensor)).or_insert((tensor, 0)).1 += 1;
    }
    let named = |(id, (tensor, count)): (u32, (&Tensor, u64))| ((id, type_name(tensor)), count);
    (known.into_iter().chain(unknown).map(named).collect(), other)
}

/// Fields of a tensor.
pub fn tensor<S: Sink>(model: &Model, tensor: &Tensor, style: Style, out: &mut S) {
    let mut fields = Fields { out, style, first: true };
    let dims = model.dims(tensor).iter().copied();
    fields.text("name", model.name(tensor.name));
    fields.text("type", type_name(tensor).as_bytes());
    fields.list("shape", dims.clone().rev());
    fields.list("dims", dims);
    fields.number("elements", tensor.elements);
    match tensor.ty {
        TensorType::Known(ty) => {
            let block = format!("{} elements in {} bytes", ty.block_len, ty.block_bytes);
            fields.text("block", block.as_bytes());
        }
        TensorType::Unknown(_) => fields.text("block", b"unknown"),
    }
    if model.source.shards.len() > 1 {
        fields.number("shard", shard_number(model, tensor));
    }
    fields.number("offset", tensor.offset);
    fields.number("file_offset", model.file_offset(tensor));
    fields.number("raw_bytes", tensor.raw_bytes);
    if model.has_f32(tensor) {
        fields.number("f32_bytes", f32::size(model, tensor));
    }
    let notes = notes(model, tensor);
    if !notes.is_empty() {
        fields.text("note", notes.join("; ").as_bytes());
    }
}

/// Number of the shard that holds a tensor, from 1 as in the shards' file names: some may be missing
/// from a damaged set.
pub fn shard_number(model: &Model, tensor: &Tensor) -> u32 {
    let file = model.source.shards.get(usize::from(tensor.shard));
    file.and_then(|file| ShardName::parse(file.path.file_name()?))
        .map_or(u32::from(tensor.shard) + 1, |name| name.number)
}

/// The type's name, or the id of one without a known layout.
pub fn type_name(tensor: &Tensor) -> Cow<'static, str> {
    match tensor.ty {
        TensorType::Known(ty) => ty.name.into(),
        TensorType::Unknown(id) => format!("unknown ({id})").into(),
    }
}

fn type_id(tensor: &Tensor) -> u32 {
    match tensor.ty {
        TensorType::Known(ty) => ty.id,
        TensorType::Unknown(id) => id,
    }
}

/// What is odd about a tensor. Written so that YAML takes it as it is.
fn notes(model: &Model, tensor: &Tensor) -> Vec<String> {
    let mut notes = Vec::new();
    match tensor.ty {
        TensorType::Unknown(id) => notes.push(match ggml::retired(id) {
            Some(name) => format!("the type {name} is retired and has no f32"),
            None => format!("the type {id} is unknown to this build and has no f32"),
        }),
        TensorType::Known(ty) if !model.has_f32(tensor) => {
            notes.push(format!("{} has no defined big-endian form and so no f32", ty.name));
        }
        TensorType::Known(_) => {}
    }
    let header = model.headers.get(usize::from(tensor.shard));
    let file = model.source.shards.get(usize::from(tensor.shard));
    if tensor.oddity.has(Oddity::OVERLAP) {
        notes.push("its data overlaps that of another tensor".into());
    }
    if let (true, Some(header)) = (tensor.oddity.has(Oddity::MISALIGNED), header) {
        notes.push(format!("its offset is no multiple of the alignment {}", header.alignment));
    }
    if let (true, Some(file)) = (tensor.oddity.has(Oddity::MISSING), file) {
        let end = model.file_offset(tensor).saturating_add(tensor.raw_bytes);
        notes.push(format!("bytes are missing, it ends at {end} and the file at {}", file.bytes));
    }
    if tensor.oddity.has(Oddity::COMPANION) {
        notes.push("a companion .scale tensor exists and is not applied to f32".into());
    }
    notes
}

/// Size of a tensor's `info`, bytes.
pub fn size(model: &Model, tensor: &Tensor) -> u64 {
    let mut count = Count::default();
    self::tensor(model, tensor, Style::Yaml, &mut count);
    count.0
}

/// The bytes `range` of a tensor's `info`.
pub fn read<'a>(
    model: &'a Model,
    tensor: &Tensor,
    range: Range<u64>,
    scratch: &'a mut Scratch,
) -> Result<&'a [u8], ReadError> {
    scratch.text.clear();
    self::tensor(model, tensor, Style::Yaml, &mut scratch.text);
    Ok(part(&scratch.text, range))
}
