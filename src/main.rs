//! The `gguf-fs` binary.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    gguf_fs::cli::run().unwrap_or_else(|e| {
        // Not eprintln: a stderr that has gone is no reason to panic.
        let _ = writeln!(std::io::stderr(), "gguf-fs: {e}");
        ExitCode::FAILURE
    })
}
