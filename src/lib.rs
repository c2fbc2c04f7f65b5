//! gguf-fs: a GGUF model file shown as a directory tree.
