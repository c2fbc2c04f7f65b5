//! The command line: what can be asked for, and who does it.

mod cat;
mod ls;
mod open;

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use log::LevelFilter;

use crate::message;
use crate::mount::{self, Options};

/// Why a command failed: one line, `<path>: <what is wrong>`.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Shows a GGUF model as a directory tree.
///
/// Mounts MODEL on the directory MOUNTPOINT and goes to the background as soon as the mount answers:
/// metadata/<key> are text files, tensors/<name>/raw the stored bytes, tensors/<name>/f32 the values
/// as float32. Everything is read-only and computed when it is read.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    override_usage = "gguf-fs [OPTIONS] <MODEL> <MOUNTPOINT>\n       \
                      gguf-fs ls [-l] <MODEL> [PATH]\n       \
                      gguf-fs cat [--offset N] [--length N] <MODEL> <PATH>...",
    after_help = "Unmount with: umount MOUNTPOINT, or: fusermount3 -u MOUNTPOINT\n\
                  A model that is really called ls or cat is named ./ls or ./cat."
)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    mount: Mount,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List names, without mounting
    Ls(ls::Ls),
    /// Write files to standard output, without mounting
    Cat(cat::Cat),
}

#[derive(Args, Debug)]
struct Mount {
    /// The model file, or one shard of a split model
    #[arg(required = true)]
    model: Option<PathBuf>,
    /// An existing directory
    #[arg(required = true)]
    mountpoint: Option<PathBuf>,
    /// Stay in the foreground and log to standard error
    #[arg(short, long)]
    foreground: bool,
    /// Mount options as mount(8) and fstab have them: allow_other, allow_root, auto_unmount, uid=N,
    /// gid=N, fsname=NAME, subtype=NAME, noexec, noatime; ro, nodev, nosuid always hold
    #[arg(short, value_name = "OPT[,OPT...]", value_parser = OsStringValueParser::new().try_map(checked))]
    options: Vec<OsString>,
    #[command(flatten)]
    common: Common,
}

/// Options of every verb.
#[derive(Args, Debug)]
struct Common {
    /// Show what can be shown of a damaged model
    #[arg(long)]
    lenient: bool,
    /// Log more; twice: everything
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// Refuses a list with an unknown option while clap can still say where it stood.
fn checked(list: OsString) -> Result<OsString, String> {
    Options::default().add(&list).map(|()| list)
}

/// Does what the command line says.
///
/// # Errors
/// One line for standard error; the exit status is then 1. Usage errors exit with 2 by themselves.
pub fn run() -> Result<ExitCode, Error> {
    let Cli { verb, mount } = Cli::parse();
    match verb {
        Some(Verb::Ls(ls)) => {
            log_to_stderr(&ls.common);
            ls.run().map(|()| ExitCode::SUCCESS)
        }
        Some(Verb::Cat(cat)) => {
            log_to_stderr(&cat.common);
            cat.run().map(|()| ExitCode::SUCCESS)
        }
        None => {
            log_to_stderr(&mount.common);
            mount.run()
        }
    }
}

impl Mount {
    fn run(self) -> Result<ExitCode, Error> {
        let mut options = Options::default();
        for list in &self.options {
            options.add(list).map_err(Error)?;
        }
        mount::run(&mount::Request {
            model: self.model.unwrap_or_default(),
            mountpoint: self.mountpoint.unwrap_or_default(),
            options,
            lenient: self.common.lenient,
            foreground: self.foreground,
        })
        .map_err(|e| Error(e.to_string()))
    }
}

/// The end of writing to standard output. A reader that has seen enough (`| head`) has closed it:
/// then there is nothing left to do, and nothing wrong.
fn finish(written: std::io::Result<()>) -> Result<(), Error> {
    match written {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(|e| Error(format!("standard output: {}", message::plain(&e)))),
    }
}

/// Lines look like errors do. What fuser logs is mostly about requests that are left unanswered on
/// purpose, so it is heard only when all is.
fn log_to_stderr(common: &Common) {
    let (ours, fusers) = match common.verbose {
        0 => (LevelFilter::Warn, LevelFilter::Off),
        1 => (LevelFilter::Debug, LevelFilter::Error),
        _ => (LevelFilter::Trace, LevelFilter::Trace),
    };
    env_logger::Builder::new()
        .filter_module("gguf_fs", ours)
        .filter_module("fuser", fusers)
        .parse_default_env()
        .format(|out, record| match record.level() {
            log::Level::Warn => writeln!(out, "gguf-fs: warning: {}", record.args()),
            level => writeln!(out, "gguf-fs: {}: {}", level.as_str().to_lowercase(), record.args()),
        })
        .init();
}
