//! The files of the tree: which there are, their exact sizes, their bytes.
//!
//! Nothing is rendered or decoded before it is read, and nothing that grows with the model is kept.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod f32;
mod info;
mod metadata;
mod number;
mod quote;
mod raw;
mod text;
mod value;

use std::ops::Range;
use std::sync::Arc;

use crate::gguf::Tensor;
use crate::model::Model;
use crate::source::ReadError;

/// A file of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// `/info`
    Info,
    /// `/metadata/<key>`: the key's position.
    Key(u32),
    /// `/tensors/<name>/<view>`: the tensor's position, and the view's in [`VIEWS`].
    Tensor(u32, u8),
}

/// A file that tensors have in their directories.
pub struct TensorView {
    /// Name of the file.
    pub name: &'static str,
    /// Whether a tensor has it.
    pub exists: fn(&Model, &Tensor) -> bool,
    is_text: bool,
    /// Size in bytes.
    size: fn(&Model, &Tensor) -> u64,
    /// The bytes of a range within the size.
    read:
        for<'a> fn(&'a Model, &Tensor, Range<u64>, &'a mut Scratch) -> Result<&'a [u8], ReadError>,
}

/// The files in a tensor's directory, in the order of a listing.
pub const VIEWS: [TensorView; 3] = [
    TensorView {
        name: "info",
        exists: |_, _| true,
        is_text: true,
        size: info::size,
        read: info::read,
    },
    TensorView {
        name: "raw",
        exists: |_, _| true,
        is_text: false,
        size: raw::size,
        read: raw::read,
    },
    TensorView {
        name: "f32",
        exists: Model::has_f32,
        is_text: false,
        size: f32::size,
        read: f32::read,
    },
];

/// Buffers of one thread, reused from read to read: once warm, a read allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Bytes of the model.
    source: Vec<u8>,
    /// What they decode to.
    floats: Vec<f32>,
    /// Rendered text.
    text: Vec<u8>,
}

/// The content of every file of the tree.
#[derive(Debug)]
pub struct Views {
    /// What they are computed from.
    pub model: Arc<Model>,
    arrays: metadata::Indexes,
}

impl Views {
    /// The views of a model. Computes nothing yet.
    pub fn new(model: Arc<Model>) -> Views {
        let arrays = metadata::Indexes::new(&model);
        Views { model, arrays }
    }

    /// Exact size of a file, bytes. The first time, a large array or view is scanned once.
    ///
    /// # Errors
    /// What had to be scanned could not be read.
    pub fn size(&self, file: File) -> Result<u64, ReadError> {
        let model = &*self.model;
        match file {
            File::Info => Ok(info::model_size(model)),
            File::Key(key) => metadata::size(model, &self.arrays, key),
            File::Tensor(tensor, view) => Ok(self
                .tensor_view(tensor, view)
                .map_or(0, |(tensor, view)| (view.size)(model, tensor))),
        }
    }

    /// The exact size where it is known or quickly found: None where [`Views::size`] would have to
    /// scan more than some 64 KiB.
    pub fn cheap_size(&self, file: File) -> Option<u64> {
        match file {
            File::Key(key) => metadata::cheap_size(&self.model, &self.arrays, key),
            _ => self.size(file).ok(),
        }
    }

    /// The bytes `offset..offset + len` of a file, as far as it goes: empty at its end and after.
    /// The bytes may be those of the mapping, which only the kernel may touch.
    ///
    /// # Errors
    /// The model's bytes that are needed cannot be had; nothing of the range is returned then.
    pub fn read<'a>(
        &'a self,
        file: File,
        offset: u64,
        len: usize,
        scratch: &'a mut Scratch,
    ) -> Result<&'a [u8], ReadError> {
        let model = &*self.model;
        let range = offset..offset.saturating_add(len as u64);
        match file {
            File::Info => Ok(info::read_model(model, range, scratch)),
            File::Key(key) => metadata::read(model, &self.arrays, key, range, scratch),
            File::Tensor(tensor, view) => {
                let Some((tensor, view)) = self.tensor_view(tensor, view) else { return Ok(&[]) };
                let range = clamp(range, (view.size)(model, tensor));
                if range.is_empty() { Ok(&[]) } else { (view.read)(model, tensor, range, scratch) }
            }
        }
    }

    /// Whether a file is text, of which readers take little at once.
    pub fn is_text(file: File) -> bool {
        match file {
            File::Info | File::Key(_) => true,
            File::Tensor(_, view) => VIEWS.get(usize::from(view)).is_some_and(|view| view.is_text),
        }
    }

    fn tensor_view(&self, tensor: u32, view: u8) -> Option<(&Tensor, &'static TensorView)> {
        Some((self.model.tensors.get(tensor as usize)?, VIEWS.get(usize::from(view))?))
    }
}

/// A range cut to a size.
fn clamp(range: Range<u64>, size: u64) -> Range<u64> {
    let start = range.start.min(size);
    start..range.end.clamp(start, size)
}

/// The bytes `range` of a whole text, as far as it goes.
fn part(text: &[u8], range: Range<u64>) -> &[u8] {
    let range = clamp(range, text.len() as u64);
    text.get(range.start as usize..range.end as usize).unwrap_or_default()
}
