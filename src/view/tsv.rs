//! `tensors.tsv`: one line a tensor, for `cut`, `awk` and spreadsheets.
//!
//! In names, backslash, tab, newline and carriage return are `\\`, `\t`, `\n` and `\r`.

use std::ops::Range;

use super::text::{Sink, Text, Window};
use super::{Scratch, Views, info, quote};
use crate::model::Model;
use crate::source::ReadError;

/// The table of a model's tensors.
struct Table<'a>(&'a Model);

impl Text for Table<'_> {
    /// Lines that are done, the header line among them.
    type State = u32;

    fn start(&self) -> u32 {
        0
    }

    fn step<S: Sink>(
        &self,
        done: &mut u32,
        _: &mut Window<'_>,
        out: &mut S,
    ) -> Result<bool, ReadError> {
        let Some(position) = done.checked_sub(1) else {
            out.bytes(b"name\ttype\tshape\telements\traw_bytes\tshard\tfile_offset\n");
            *done = 1;
            return Ok(true);
        };
        let model = self.0;
        let Some(tensor) = model.tensors.get(position as usize) else { return Ok(false) };
        quote::line::<true, S>(model.name(tensor.name), out);
        out.bytes(b"\t");
        out.bytes(info::type_name(tensor).as_bytes());
        out.bytes(b"\t");
        info::list(model.dims(tensor).iter().rev().copied(), out);
        for number in [
            tensor.elements,
            tensor.raw_bytes,
            info::shard_number(model, tensor).into(),
            model.file_offset(tensor),
        ] {
            out.bytes(b"\t");
            out.decimal(number);
        }
        out.bytes(b"\n");
        *done += 1;
        Ok(true)
    }
}

/// Size in bytes. The first time, all lines are measured.
pub fn size(views: &Views) -> Result<u64, ReadError> {
    views.tsv.size(&Table(&views.model), &views.model.source)
}

/// The bytes `range` of the file, as far as it goes.
pub fn read<'a>(
    views: &'a Views,
    range: Range<u64>,
    scratch: &'a mut Scratch,
) -> Result<&'a [u8], ReadError> {
    let Scratch { source, text, .. } = scratch;
    views.tsv.read(&Table(&views.model), range, &views.model.source, source, text)
}
