//! The files of the tree: which there are, their exact sizes, their bytes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
