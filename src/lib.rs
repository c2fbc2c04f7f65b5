//! gguf-fs: a GGUF model file shown as a directory tree.
//!
//! Imports point one way:
//! `main → cli → mount → fuse → tree → view → model → { source, gguf, ggml }`, and `gguf → ggml`;
//! `tree` and `view` also use `name`, and what prints messages `message`.

pub mod cli;
pub mod fuse;
pub mod ggml;
pub mod gguf;
pub mod message;
pub mod model;
pub mod mount;
pub mod name;
pub mod source;
pub mod tree;
pub mod view;
