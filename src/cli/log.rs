//! The log: lines that look like errors do, on standard error and in a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use log::{Level, LevelFilter, Record};

use super::Error;
use crate::message::{plain, shown};

/// Starts logging. What fuser logs is mostly about requests that are left unanswered on purpose, so
/// it is heard only when all is.
///
/// # Errors
/// The file cannot be written.
pub(super) fn start(verbose: u8, file: Option<&Path>) -> Result<(), Error> {
    let (ours, fusers) = match verbose {
        0 => (LevelFilter::Warn, LevelFilter::Off),
        1 => (LevelFilter::Debug, LevelFilter::Error),
        _ => (LevelFilter::Trace, LevelFilter::Trace),
    };
    let file = file.map(checked).transpose()?;
    let mut logger = env_logger::Builder::new();
    // A bare level in RUST_LOG would not outrank what is set for a module.
    if verbose > 0 || std::env::var_os("RUST_LOG").is_none() {
        logger.filter_module("gguf_fs", ours).filter_module("fuser", fusers);
    }
    logger
        .parse_default_env()
        .format(move |out, record| {
            let line = line(record);
            if let Some(file) = &file {
                // There is nobody left to tell.
                let _ = append(file, &format!("{} {line}", out.timestamp()));
            }
            out.write_all(line.as_bytes())
        })
        .init();
    Ok(())
}

fn line(record: &Record) -> String {
    let level = match record.level() {
        Level::Warn => "warning".to_owned(),
        level => level.as_str().to_lowercase(),
    };
    format!("gguf-fs: {level}: {}\n", record.args())
}

/// The absolute path of a log file that can be written.
fn checked(file: &Path) -> Result<PathBuf, Error> {
    let path = std::path::absolute(file).and_then(|path| append(&path, "").map(|()| path));
    path.map_err(|e| Error(format!("{}: cannot write the log: {}", shown(file), plain(&e))))
}

/// Opened anew for each line: the file may have been moved away, and going to the background closes
/// whatever is open.
fn append(path: &Path, line: &str) -> io::Result<()> {
    File::options().create(true).append(true).open(path)?.write_all(line.as_bytes())
}
