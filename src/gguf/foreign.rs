//! What a file that is not GGUF looks like, for the error message.

use super::printable::Printable;

/// A file of another kind: where its mark is, the mark, and what to say.
const MARKS: &[(usize, &[u8], &str)] = &[
    (0, b"version https://git-lfs", "a Git LFS pointer; `git lfs pull` fetches the model"),
    (0, b"PK\x03\x04", "a zip archive, such as a PyTorch checkpoint"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (0, b"tjgg", "an old GGJT model from before GGUF"),
    (0, b"fmgg", "an old GGMF model from before GGUF"),
    (0, b"lmgg", "an old GGML model from before GGUF"),
    (0, b"algg", "an old GGLA adapter from before GGUF"),
    (0, b"FUGG", "GGUF with its bytes in reversed order"),
    (0, b"\x80\x02", "a Python pickle, such as an old PyTorch checkpoint"),
    (0, b"\x80\x03", "a Python pickle"),
    (0, b"\x80\x04", "a Python pickle"),
    (0, b"\x80\x05", "a Python pickle"),
    (0, b"\x1f\x8b", "gzip data; unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data; unpack it first"),
    (0, b"\xfd7zXZ\0", "xz data; unpack it first"),
    (0, b"BZh", "bzip2 data; unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it first"),
    (257, b"ustar", "a tar archive; unpack it first"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as a Keras model"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"\x7fELF", "a program"),
    (0, b"%PDF", "a PDF document"),
    (4, b"TFL3", "a TensorFlow Lite model"),
];

/// Enough of a file for [`looks_like`].
pub(super) const HEAD: usize = 512;

/// What a file looks like, by its first bytes.
pub(super) fn looks_like(head: &[u8]) -> Option<String> {
    for (at, mark, kind) in MARKS {
        if head.get(*at..).is_some_and(|rest| rest.starts_with(mark)) {
            return Some((*kind).into());
        }
    }
    if head.get(8) == Some(&b'{') && head.get(4..8) == Some(&[0; 4]) {
        return Some("a safetensors file".into());
    }
    if head.len() > 16 && head.iter().all(|b| *b == 0) {
        return Some("the zeros of a download that has not arrived yet".into());
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let lower: Vec<u8> = text.iter().take(16).map(u8::to_ascii_lowercase).collect();
    let html: [&[u8]; 5] = [b"<!doctype", b"<html", b"<head", b"<body", b"<?xml"];
    if html.iter().any(|tag| lower.starts_with(tag)) {
        return Some(
            "an HTML page, such as a login or error page saved under the model's name".into(),
        );
    }
    if text.starts_with(b"{") || text.starts_with(b"[") {
        return Some("JSON text".into());
    }
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    let prose = |b: &u8| b.is_ascii_graphic() || *b == b' ' || *b == b'\t';
    let is_text = line.len() > 4 && line.iter().all(prose);
    is_text.then(|| format!("a text file that begins {}", Printable(line)))
}
