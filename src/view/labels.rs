//! Names of keys and tensors as members of JSON objects: all different, and valid Unicode.

use std::borrow::Cow;

use crate::model::Model;
use crate::name::{self, Ordinals, Unique};

/// The member of a safetensors header that is no tensor.
const RESERVED: &[u8] = b"__metadata__";

/// The member of its metadata that is always there.
pub const FORMAT: &[u8] = b"format";

/// Which names need another than their own: a duplicate, or what JSON cannot tell from another name
/// since bytes that are not UTF-8 become U+FFFD.
#[derive(Debug)]
pub struct Labels {
    keys: Ordinals,
    tensors: Ordinals,
    /// The key `format` beside a member of that name which is not of the model.
    pub format: Vec<u8>,
}

impl Labels {
    /// The labels of a model.
    pub fn new(model: &Model) -> Labels {
        let keys = 0..model.metadata.len() as u32;
        let tensors = 0..model.tensors.len() as u32;
        let key = |key, n| unicode(key_label(model, key, n));
        let keys = Unique::new(keys, key);
        let format = (2..)
            .map(|n| name::file_name(FORMAT, n, ""))
            .find(|label| keys.find(label, key).is_none())
            .unwrap_or_default();
        Labels {
            format: format.into_owned(),
            keys: keys.ordinals,
            tensors: Unique::new(tensors, |t, n| unicode(tensor_label(model, t, n))).ordinals,
        }
    }

    /// The label of a key.
    pub fn key<'a>(&self, model: &'a Model, key: u32) -> Cow<'a, [u8]> {
        key_label(model, key, self.keys.of(key))
    }

    /// The label of a tensor.
    pub fn tensor<'a>(&self, model: &'a Model, tensor: u32) -> Cow<'a, [u8]> {
        tensor_label(model, tensor, self.tensors.of(tensor))
    }
}

/// The name as it is for the first of its name, else as its file name is.
fn key_label(model: &Model, key: u32, ordinal: u32) -> Cow<'_, [u8]> {
    let name = model.key_name(key);
    if ordinal == 1 { Cow::Borrowed(name) } else { name::file_name(name, ordinal, "") }
}

fn tensor_label(model: &Model, tensor: u32, ordinal: u32) -> Cow<'_, [u8]> {
    let name = model.tensor_name(tensor);
    match ordinal + u32::from(name == RESERVED) {
        1 => Cow::Borrowed(name),
        ordinal => name::file_name(name, ordinal, ""),
    }
}

/// What JSON has for a name.
fn unicode(name: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match std::str::from_utf8(&name) {
        Ok(_) => name,
        Err(_) => String::from_utf8_lossy(&name).into_owned().into_bytes().into(),
    }
}
