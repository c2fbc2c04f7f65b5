//! The files of the tree: which there are, their exact sizes, their bytes.
//!
//! Nothing is rendered or decoded before it is read, and nothing that grows with the model is kept.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod f32;
mod info;
mod json;
mod labels;
mod metadata;
mod npy;
mod number;
mod quote;
mod raw;
mod safetensors;
mod text;
mod tsv;
mod value;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::gguf::Tensor;
use crate::model::Model;
use crate::source::ReadError;
use labels::Labels;
use safetensors::{FORMATS, Starts};
use text::Lazy;

/// A file of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// A file of the whole model: its position in [`MODEL_VIEWS`].
    Model(u8),
    /// `/metadata/<key>`: the key's position.
    Key(u32),
    /// `/tensors/<name>/<view>`: the tensor's position, and the view's in [`VIEWS`].
    Tensor(u32, u8),
    /// `/npy/<name>.npy`: the tensor's position.
    Npy(u32),
}

/// What a read gives.
type Bytes<'a> = Result<&'a [u8], ReadError>;

/// A file that the model as a whole has.
pub struct ModelView {
    /// Name of the file.
    pub name: &'static str,
    is_text: bool,
    /// Exact size, bytes. May take a scan, once.
    size: fn(&Views) -> Result<u64, ReadError>,
    /// The same if it is known already.
    known_size: fn(&Views) -> Option<u64>,
    /// The bytes of a range, as far as the file goes.
    read: for<'a> fn(&'a Views, Range<u64>, &'a mut Scratch) -> Bytes<'a>,
}

/// The files of the model as a whole; where they are in the tree says [`crate::tree`].
pub static MODEL_VIEWS: [ModelView; 6] = [
    ModelView {
        name: "info",
        is_text: true,
        size: |v| Ok(v.info().len() as u64),
        known_size: |v| Some(v.info().len() as u64),
        read: |v, range, _| Ok(part(v.info(), range)),
    },
    ModelView {
        name: "model.json",
        is_text: true,
        size: json::size,
        known_size: |v| v.json.known_size(),
        read: json::read,
    },
    ModelView {
        name: "tensors.tsv",
        is_text: true,
        size: tsv::size,
        known_size: |v| v.tsv.known_size(),
        read: tsv::read,
    },
    ModelView {
        name: "f32.safetensors",
        is_text: false,
        size: |v| safetensors::size(v, &FORMATS[0]),
        known_size: |v| safetensors::known_size(v, &FORMATS[0]),
        read: |v, range, scratch| safetensors::read(v, &FORMATS[0], range, scratch),
    },
    ModelView {
        name: "f16.safetensors",
        is_text: false,
        size: |v| safetensors::size(v, &FORMATS[1]),
        known_size: |v| safetensors::known_size(v, &FORMATS[1]),
        read: |v, range, scratch| safetensors::read(v, &FORMATS[1], range, scratch),
    },
    ModelView {
        name: "bf16.safetensors",
        is_text: false,
        size: |v| safetensors::size(v, &FORMATS[2]),
        known_size: |v| safetensors::known_size(v, &FORMATS[2]),
        read: |v, range, scratch| safetensors::read(v, &FORMATS[2], range, scratch),
    },
];

/// A file that tensors have.
pub struct TensorView {
    /// Name of the file.
    pub name: &'static str,
    is_text: bool,
    /// Whether a tensor has it.
    pub exists: fn(&Model, &Tensor) -> bool,
    /// Exact size, bytes.
    size: fn(&Model, &Tensor) -> u64,
    /// The bytes of a range within the size.
    read: for<'a> fn(&'a Model, &Tensor, Range<u64>, &'a mut Scratch) -> Bytes<'a>,
}

/// The files in a tensor's directory, in the order of a listing.
#[rustfmt::skip]
pub static VIEWS: [TensorView; 3] = [
    TensorView { name: "info", is_text: true, exists: |_, _| true, size: info::size, read: info::read },
    TensorView { name: "raw", is_text: false, exists: |_, _| true, size: raw::size, read: raw::read },
    TensorView { name: "f32", is_text: false, exists: Model::has_f32, size: f32::size, read: f32::read },
];

/// The file that a tensor has in `/npy`, where its own name has this ending.
pub static NPY: TensorView = TensorView {
    name: ".npy",
    is_text: false,
    exists: Model::has_f32,
    size: npy::size,
    read: npy::read,
};

/// Buffers of one thread, reused from read to read: once warm, a read allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Bytes of the model that text is made of.
    source: Vec<u8>,
    text: Vec<u8>,
    blocks: f32::Blocks,
    /// Floats rounded to 16 bits.
    halves: Vec<u16>,
    /// What a read gets from several places.
    gathered: Vec<u8>,
}

/// Most bytes of text, or of its source, that a thread keeps from read to read.
const KEPT: usize = 2 << 20;

impl Scratch {
    /// Gives back what only an unusual read needs, such as that of a very long name.
    pub fn trim(&mut self) {
        for buf in [&mut self.source, &mut self.text] {
            if buf.capacity() > KEPT {
                *buf = Vec::new();
            }
        }
    }
}

/// The content of every file of the tree.
#[derive(Debug)]
pub struct Views {
    /// What they are computed from.
    pub model: Arc<Model>,
    arrays: metadata::Indexes,
    /// The text of `/info`, a few KiB at most.
    info: OnceLock<Vec<u8>>,
    labels: OnceLock<Labels>,
    starts: OnceLock<Starts>,
    json: Lazy<json::State>,
    tsv: Lazy<u32>,
    safetensors: [Lazy<safetensors::State>; 3],
}

impl Views {
    /// The views of a model. Computes nothing yet.
    pub fn new(model: Arc<Model>) -> Views {
        let arrays = metadata::Indexes::new(&model);
        let (info, labels, starts) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (json, tsv, safetensors) = Default::default();
        Views { model, arrays, info, labels, starts, json, tsv, safetensors }
    }

    /// Exact size of a file, bytes. The first time, a large array or view is scanned once.
    ///
    /// # Errors
    /// What had to be scanned could not be read.
    pub fn size(&self, file: File) -> Result<u64, ReadError> {
        match file {
            File::Model(view) => model_view(view).map_or(Ok(0), |view| (view.size)(self)),
            File::Key(key) => metadata::size(&self.model, &self.arrays, key),
            File::Tensor(..) | File::Npy(_) => Ok(self
                .tensor_view(file)
                .map_or(0, |(tensor, view)| (view.size)(&self.model, tensor))),
        }
    }

    /// The exact size where it is known or quickly found: None where [`Views::size`] would have to
    /// scan more than some 64 KiB.
    pub fn cheap_size(&self, file: File) -> Option<u64> {
        match file {
            File::Model(view) => model_view(view).and_then(|view| (view.known_size)(self)),
            File::Key(key) => metadata::cheap_size(&self.model, &self.arrays, key),
            File::Tensor(..) | File::Npy(_) => self.size(file).ok(),
        }
    }

    /// The bytes `offset..offset + len` of a file, as far as it goes: empty at its end and after.
    /// They may be bytes of the mapping, which only the kernel may touch.
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
        let range = offset..offset.saturating_add(len as u64);
        match file {
            File::Model(view) => {
                model_view(view).map_or(Ok(&[]), |view| (view.read)(self, range, scratch))
            }
            File::Key(key) => metadata::read(&self.model, &self.arrays, key, range, scratch),
            File::Tensor(..) | File::Npy(_) => {
                let Some((tensor, view)) = self.tensor_view(file) else { return Ok(&[]) };
                let range = clamp(range, (view.size)(&self.model, tensor));
                if range.is_empty() {
                    return Ok(&[]);
                }
                (view.read)(&self.model, tensor, range, scratch)
            }
        }
    }

    /// Whether a file is text, of which readers take little at once.
    pub fn is_text(file: File) -> bool {
        match file {
            File::Model(view) => model_view(view).is_some_and(|view| view.is_text),
            File::Key(_) => true,
            File::Tensor(_, view) => VIEWS.get(usize::from(view)).is_some_and(|view| view.is_text),
            File::Npy(_) => NPY.is_text,
        }
    }

    fn tensor_view(&self, file: File) -> Option<(&Tensor, &'static TensorView)> {
        let (tensor, view) = match file {
            File::Tensor(tensor, view) => (tensor, VIEWS.get(usize::from(view))?),
            File::Npy(tensor) => (tensor, &NPY),
            File::Model(_) | File::Key(_) => return None,
        };
        Some((self.model.tensors.get(tensor as usize)?, view))
    }

    fn info(&self) -> &[u8] {
        self.info.get_or_init(|| {
            let mut text = Vec::new();
            info::model(&self.model, info::Style::Yaml, &mut text);
            text
        })
    }

    fn labels(&self) -> &Labels {
        self.labels.get_or_init(|| Labels::new(&self.model))
    }

    fn starts(&self) -> &Starts {
        self.starts.get_or_init(|| Starts::new(&self.model))
    }
}

fn model_view(view: u8) -> Option<&'static ModelView> {
    MODEL_VIEWS.get(usize::from(view))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_usual_buffers_and_gives_back_huge_ones() {
        let mut scratch = Scratch::default();
        scratch.source.reserve_exact(KEPT);
        scratch.text.reserve_exact(KEPT + 1);
        scratch.trim();
        assert_eq!((scratch.source.capacity(), scratch.text.capacity()), (KEPT, 0));
    }
}
