//! A model of a few MiB whose every byte, value and token is known, and checks of its mount.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::gguf_builder::{F32, GgufBuilder, Q8_0, Val};
use super::mounted::Place;

/// Elements of each big tensor.
pub const ELEMENTS: usize = 512 << 10;

pub const TOKENS: usize = 100_000;

/// A model of about 5 MiB with known values, and where its parts are in the file.
pub struct Known {
    pub bytes: Vec<u8>,
    /// Offsets of the first token, and of the tensors `early` (Q8_0) and `late` (F32).
    pub tokens: u64,
    pub early: u64,
    pub late: u64,
}

impl Known {
    pub fn new() -> Known {
        let tokens = (0..TOKENS).map(|i| Val::Str(token(i).into())).collect();
        let floats: Vec<u8> = (0..ELEMENTS).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let builder = GgufBuilder::base()
            .key("tokens", Val::Array(8, tokens))
            .tensor("early", Q8_0, &[1024, ELEMENTS as u64 / 1024], &quants())
            .tensor("late", F32, &[1024, ELEMENTS as u64 / 1024], &floats);
        let bytes = builder.build();
        let late = (bytes.len() - floats.len()) as u64;
        let early = late - quants().len().next_multiple_of(32) as u64;
        let key = bytes.windows(6).position(|w| w == b"tokens").unwrap() as u64;
        Known { bytes, tokens: key + 6 + 4 + 4 + 8 + 8, early, late }
    }

    pub fn late_raw(&self) -> &[u8] {
        &self.bytes[self.late as usize..]
    }
}

/// Q8_0 blocks of scale 1, so that each value is its quant.
pub fn quants() -> Vec<u8> {
    let block = |i: usize| [0x00, 0x3C].into_iter().chain((0..32).map(move |j| quant(32 * i + j)));
    (0..ELEMENTS / 32).flat_map(block).collect()
}

pub fn quant(element: usize) -> u8 {
    (element % 251) as u8
}

pub fn early_f32() -> Vec<u8> {
    (0..ELEMENTS).flat_map(|i| f32::from(quant(i) as i8).to_le_bytes()).collect()
}

pub fn token(i: usize) -> String {
    format!("token {i:06}")
}

pub fn tokens() -> Vec<u8> {
    (0..TOKENS).flat_map(|i| (token(i) + "\n").into_bytes()).collect()
}

/// One pread, whole.
pub fn pread(path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    File::open(path)?.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

pub fn is_eio<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|e| e.raw_os_error() == Some(libc::EIO))
}

/// The page cache would hide what the daemon can no longer read.
pub fn forget_pages(path: &Path) {
    let file = File::open(path).unwrap();
    nix::fcntl::posix_fadvise(&file, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED)
        .unwrap();
}

/// Everything in the mount is what the model says.
pub fn check_all(place: &Place, known: &Known) {
    for tensor in ["early", "late"] {
        for view in ["raw", "f32"] {
            forget_pages(&place.path(&format!("tensors/{tensor}/{view}")));
        }
    }
    forget_pages(&place.path("metadata/tokens"));
    assert!(place.read("tensors/late/raw") == known.late_raw());
    assert!(place.read("tensors/late/f32") == known.late_raw());
    assert!(place.read("tensors/early/raw") == quants());
    assert!(place.read("tensors/early/f32") == early_f32());
    assert!(place.read("metadata/tokens") == tokens());
}
