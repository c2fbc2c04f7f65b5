//! `model.json`: everything in `info`, every metadata value with its type, every tensor.
//!
//! ```json
//! {
//! "info": {"file": "/models/m.gguf", …},
//! "metadata": {
//! "general.architecture": {"type": "string", "value": "llama"},
//! "tokenizer.ggml.scores": {"type": "array", "element_type": "f32", "value": [0.0,-1.5]}
//! },
//! "tensors": {
//! "output.weight": {"name": "output.weight", "type": "Q6_K", "shape": [32000, 4096], …}
//! }
//! }
//! ```
//!
//! The value is null where it is too large to be text.

use std::ops::Range;

use super::info::{self, Style};
use super::labels::Labels;
use super::quote;
use super::text::{Sink, Text, Window};
use super::value::{self, Cursor, Renderer};
use super::{Scratch, Views, metadata};
use crate::gguf::Value;
use crate::model::Model;
use crate::source::ReadError;

/// A model as JSON.
struct Json<'a> {
    model: &'a Model,
    labels: &'a Labels,
    arrays: &'a metadata::Indexes,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
pub enum State {
    Info,
    Key(u32),
    Value(u32, Cursor),
    Tensor(u32),
}

impl Text for Json<'_> {
    type State = State;

    fn start(&self) -> State {
        State::Info
    }

    fn step<S: Sink>(
        &self,
        state: &mut State,
        window: &mut Window<'_>,
        out: &mut S,
    ) -> Result<bool, ReadError> {
        let Json { model, labels, arrays } = *self;
        let separator = |position| if position == 0 { "\n" } else { ",\n" };
        *state = match *state {
            State::Info => {
                out.bytes(b"{\n\"info\": {");
                info::model(model, Style::Json, out);
                out.bytes(b"},\n\"metadata\": {");
                State::Key(0)
            }
            State::Key(key) => match model.metadata.get(key as usize) {
                Some(entry) => {
                    out.bytes(separator(key).as_bytes());
                    quote::json_string(&labels.key(model, key), out);
                    out.bytes(b": {\"type\": \"");
                    out.bytes(entry.value.value_type().name().as_bytes());
                    if let Value::Array(array) = entry.value {
                        out.bytes(b"\", \"element_type\": \"");
                        out.bytes(array.element.name().as_bytes());
                    }
                    out.bytes(b"\", \"value\": ");
                    if arrays.is_too_large(key) {
                        out.bytes(b"null");
                        State::Value(key, Cursor::DONE)
                    } else {
                        State::Value(key, value::begin_json(&entry.value, out))
                    }
                }
                None => {
                    out.bytes(b"\n},\n\"tensors\": {");
                    State::Tensor(0)
                }
            },
            State::Value(key, mut cursor) => {
                if cursor.more() {
                    let style = value::Style::Json;
                    Renderer { layout: model.layout(0), style }.step(&mut cursor, window, out)?;
                    State::Value(key, cursor)
                } else {
                    out.bytes(b"}");
                    State::Key(key + 1)
                }
            }
            State::Tensor(position) => match model.tensors.get(position as usize) {
                Some(tensor) => {
                    out.bytes(separator(position).as_bytes());
                    quote::json_string(&labels.tensor(model, position), out);
                    out.bytes(b": {");
                    info::tensor(model, tensor, Style::Json, out);
                    out.bytes(b"}");
                    State::Tensor(position + 1)
                }
                None => {
                    out.bytes(b"\n}\n}\n");
                    return Ok(false);
                }
            },
        };
        Ok(true)
    }
}

/// Size in bytes. The first time, everything is scanned.
pub fn size(views: &Views) -> Result<u64, ReadError> {
    views.json.size(&json(views), &views.model.source)
}

/// The bytes `range` of the file, as far as it goes.
pub fn read<'a>(
    views: &'a Views,
    range: Range<u64>,
    scratch: &'a mut Scratch,
) -> Result<&'a [u8], ReadError> {
    let Scratch { source, text, .. } = scratch;
    views.json.read(&json(views), range, &views.model.source, source, text)
}

fn json(views: &Views) -> Json<'_> {
    Json { model: &views.model, labels: views.labels(), arrays: &views.arrays }
}
