//! The sample files under `tests/data`, with what is known about each.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

/// A file that must open, and its `.expected.json`.
pub struct Sample {
    pub path: PathBuf,
    pub expected: Json,
}

/// A broken or odd file, and its entry in `reasons.json`.
pub struct Oddity {
    pub path: PathBuf,
    pub entry: Json,
}

fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder)
}

/// Every sample of a folder that has an `.expected.json`, by name.
fn samples_in(folder: &Path) -> Vec<Sample> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".expected.json"))
        .collect();
    paths.sort();
    let sample = |json: PathBuf| Sample {
        expected: serde_json::from_slice(&fs::read(&json).unwrap()).unwrap(),
        path: json.with_extension("").with_extension(""),
    };
    paths.into_iter().map(sample).collect()
}

/// The generated valid files.
pub fn valid() -> Vec<Sample> {
    let samples = samples_in(&data("valid"));
    assert!(samples.len() >= 20, "tests/data/valid is incomplete");
    samples
}

/// The folder of files of other people's making, which are not part of this repository: looked for
/// where `GGUF_FS_REAL_CORPUS` says, or beside the checkout. Says so if there is none.
pub fn real_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("GGUF_FS_REAL_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus/real"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        eprintln!("LEFT OUT: real models, since {} is no folder", folder.display());
        return None;
    }
    Some(folder)
}

/// The real files that have an `.expected.json`.
pub fn real() -> Vec<Sample> {
    real_folder().map(|folder| samples_in(&folder)).unwrap_or_default()
}

/// The malformed and odd files.
pub fn malformed() -> Vec<Oddity> {
    let folder = data("malformed");
    let reasons: Json =
        serde_json::from_slice(&fs::read(folder.join("reasons.json")).unwrap()).unwrap();
    let entries = reasons.as_array().unwrap();
    assert!(entries.len() >= 80, "tests/data/malformed is incomplete");
    let oddity = |entry: &Json| Oddity {
        path: folder.join(entry["file"].as_str().unwrap()),
        entry: entry.clone(),
    };
    entries.iter().map(oddity).collect()
}

/// A string of the corpus: plain, `{"utf8"}` or `{"hex"}`.
pub fn bytes(json: &Json) -> Vec<u8> {
    if let Some(plain) = json.as_str().or_else(|| json["utf8"].as_str()) {
        return plain.into();
    }
    let hex = json["hex"].as_str().unwrap_or_else(|| panic!("no string: {json}"));
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
