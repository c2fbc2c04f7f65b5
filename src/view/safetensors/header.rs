//! The JSON header of a safetensors file, without its length and its padding.

use std::ops::Range;

use super::{Format, Starts};
use crate::gguf::{Tensor, Value};
use crate::model::Model;
use crate::source::ReadError;
use crate::view::labels::{FORMAT, Labels};
use crate::view::text::{Sink, Text, Window};
use crate::view::value::{self, Cursor, Renderer};
use crate::view::{info, metadata, quote};

/// The header of the file of a format.
pub struct Header<'a> {
    pub model: &'a Model,
    pub labels: &'a Labels,
    pub arrays: &'a metadata::Indexes,
    pub starts: &'a Starts,
    pub format: &'a Format,
}

/// What comes next in a header.
#[derive(Clone, Copy, Debug)]
pub enum State {
    Start,
    Key(u32),
    Value(u32, Cursor),
    Tensor(u32),
}

impl Text for Header<'_> {
    type State = State;

    fn start(&self) -> State {
        State::Start
    }

    fn step<S: Sink>(
        &self,
        state: &mut State,
        window: &mut Window<'_>,
        out: &mut S,
    ) -> Result<bool, ReadError> {
        let model = self.model;
        *state = match *state {
            State::Start => {
                out.bytes(b"{\"__metadata__\":{\"format\":\"pt\"");
                State::Key(0)
            }
            State::Key(key) => match model.metadata.get(key as usize) {
                Some(entry) => {
                    let is_array = matches!(entry.value, Value::Array(_));
                    let left_out = is_array || self.arrays.is_too_large(key);
                    if !left_out {
                        self.key(key, out);
                    }
                    match &entry.value {
                        _ if left_out => State::Key(key + 1),
                        string @ Value::String(_) => {
                            State::Value(key, value::begin_json(string, out))
                        }
                        number => {
                            out.bytes(b"\"");
                            value::scalar(number, out);
                            out.bytes(b"\"");
                            State::Key(key + 1)
                        }
                    }
                }
                None => {
                    out.bytes(b"}");
                    State::Tensor(0)
                }
            },
            State::Value(key, mut cursor) => {
                let style = value::Style::Json;
                let renderer = Renderer { layout: model.layout(0), style };
                match renderer.step(&mut cursor, window, out)? {
                    true => State::Value(key, cursor),
                    false => State::Key(key + 1),
                }
            }
            State::Tensor(position) => {
                let Some(tensor) = model.tensors.get(position as usize) else {
                    out.bytes(b"}");
                    return Ok(false);
                };
                self.tensor(position, tensor, out);
                State::Tensor(position + 1)
            }
        };
        Ok(true)
    }
}

impl Header<'_> {
    fn key<S: Sink>(&self, key: u32, out: &mut S) {
        out.bytes(b",");
        let label = self.labels.key(self.model, key);
        // The first member has this name.
        quote::json_string(if *label == *FORMAT { &self.labels.format } else { &label }, out);
        out.bytes(b":");
    }

    fn tensor<S: Sink>(&self, position: u32, tensor: &Tensor, out: &mut S) {
        let Range { start, end } = self.starts.of(position as usize);
        if !self.model.has_f32(tensor) || end - start != tensor.elements {
            return;
        }
        out.bytes(b",");
        quote::json_string(&self.labels.tensor(self.model, position), out);
        out.bytes(b":{\"dtype\":\"");
        out.bytes(self.format.dtype.as_bytes());
        out.bytes(b"\",\"shape\":");
        info::list(self.model.dims(tensor).iter().rev().copied(), out);
        out.bytes(b",\"data_offsets\":");
        info::list([start, end].map(|element| element * self.format.bytes).into_iter(), out);
        out.bytes(b"}");
    }
}
