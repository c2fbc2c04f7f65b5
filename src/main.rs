//! The `gguf-fs` binary.
fn main() {}
