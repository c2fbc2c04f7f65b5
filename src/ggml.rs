//! Tensor types: placeholder until the type table lands.

/// One row a tensor type.
#[derive(Debug)]
pub struct Type {
    /// Id in the file.
    pub id: u32,
    /// Upper-case name.
    pub name: &'static str,
    /// Elements in a block.
    pub block_len: u32,
    /// Bytes in a block.
    pub block_bytes: u32,
}

/// The row of an id.
pub fn by_id(_id: u32) -> Option<&'static Type> {
    None
}
