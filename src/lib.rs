//! gguf-fs: a GGUF model file shown as a directory tree.

pub mod ggml;
