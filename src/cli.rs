//! The command line: what can be asked for, and who does it.

mod cat;
mod log;
mod ls;
mod natural;
mod open;

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueHint};

use crate::ggml::isa::Isa;
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

/// Shows a GGUF model as a folder of files
///
/// Mounts MODEL on the folder MOUNTPOINT, read-only, and goes to the background as soon as the mount
/// answers. Each metadata key is a text file, metadata/<key>; each tensor a folder with its stored
/// bytes, tensors/<name>/raw, and its values as float32, tensors/<name>/f32. Nothing is decoded
/// before it is read, and then only what is read.
///
/// The verbs ls and cat give the same names, sizes and bytes without a mount.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    disable_version_flag = true,
    max_term_width = 80,
    override_usage = "gguf-fs [OPTIONS] <MODEL> <MOUNTPOINT>\n       \
                      gguf-fs <ls|cat> [OPTIONS] <MODEL> [PATH]...",
    after_help = "To unmount: umount MOUNTPOINT. More, with examples: gguf-fs --help",
    after_long_help = AFTER_HELP,
)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    mount: Mount,
    /// Print the version; with -v what a bug report needs
    #[arg(short = 'V', long)]
    version: bool,
}

const AFTER_HELP: &str = "\
Examples:
  Mount a model, look at it, unmount it:
    gguf-fs model.gguf /mnt/m
    cat /mnt/m/info /mnt/m/metadata/general.name
    umount /mnt/m                   (as an ordinary user: fusermount3 -u /mnt/m)

  Without a mount:
    gguf-fs ls -l model.gguf tensors
    gguf-fs cat model.gguf metadata/general.name

  For every user of the machine, gone when the program dies:
    gguf-fs -o allow_other,auto_unmount model.gguf /mnt/m

  In /etc/fstab, mounted when it is first used:
    /srv/m.gguf /mnt/m fuse.gguf-fs ro,allow_other,x-systemd.automount 0 0

Exit status: 0 when the mount answers (with -f: when it has been unmounted),
1 when it failed, with one line that says why, 2 when the command line is wrong.

A model that is really called ls or cat is named ./ls or ./cat.";

#[derive(Debug, Subcommand)]
enum Verb {
    Ls(ls::Ls),
    Cat(cat::Cat),
}

#[derive(Args, Debug)]
struct Mount {
    /// The model file, or one shard of a split model
    #[arg(required_unless_present = "version", value_hint = ValueHint::FilePath)]
    model: Option<PathBuf>,
    /// An existing folder
    ///
    /// It need not be empty: what is in it is out of sight while the model is mounted.
    #[arg(required_unless_present = "version", value_hint = ValueHint::DirPath)]
    mountpoint: Option<PathBuf>,
    /// Stay in the foreground and log to standard error
    ///
    /// Ctrl-C unmounts.
    #[arg(short, long)]
    foreground: bool,
    /// Mount options, as mount(8) and fstab have them
    ///
    /// allow_other lets other users in (an ordinary user may say so if /etc/fuse.conf has
    /// user_allow_other), allow_root only root. auto_unmount unmounts even if the program is killed.
    /// uid=N and gid=N are the owner shown, fsname=NAME and subtype=NAME what findmnt and df show.
    /// noexec and noatime are passed on; ro, nodev and nosuid hold always. What else fstab may say
    /// (noauto, nofail, user, _netdev, x-...) is taken and changes nothing.
    #[arg(
        short,
        value_name = "OPT[,OPT...]",
        value_parser = OsStringValueParser::new().try_map(checked),
        value_hint = ValueHint::Other
    )]
    options: Vec<OsString>,
    /// Append the log to FILE too, with times
    ///
    /// In the background this is the only place where it goes. The file is opened for each line, so
    /// that it can be moved away.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log_file: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Options of every verb.
#[derive(Args, Debug)]
struct Common {
    /// Show what can be shown of a damaged model
    ///
    /// Each problem is a warning then, and reading bytes that do not exist is an error.
    #[arg(long)]
    lenient: bool,
    /// Log more; twice: everything
    ///
    /// RUST_LOG=LEVEL (error, warn, info, debug, trace) says it in the environment.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// The command line's definition, for the manual page and the shells' completions.
pub fn command() -> clap::Command {
    Cli::command()
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
    let Cli { verb, mount, version } = Cli::try_parse().unwrap_or_else(|e| clearer(e).exit());
    if version {
        return print_version(mount.common.verbose > 0).map(|()| ExitCode::SUCCESS);
    }
    match verb {
        Some(Verb::Ls(ls)) => {
            log::start(ls.common.verbose, None)?;
            ls.run().map(|()| ExitCode::SUCCESS)
        }
        Some(Verb::Cat(cat)) => {
            log::start(cat.common.verbose, None)?;
            cat.run().map(|()| ExitCode::SUCCESS)
        }
        None => {
            log::start(mount.common.verbose, mount.log_file.as_deref())?;
            mount.run()
        }
    }
}

/// Where clap takes a third name for a misplaced verb, a blank in one of two is more likely.
/// What was typed is shown without control characters.
fn clearer(mut error: clap::Error) -> clap::Error {
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand]
    {
        if let Some(ContextValue::String(typed)) = error.get(kind) {
            let typed = message::shown(Path::new(typed));
            error.insert(kind, ContextValue::String(typed));
        }
    }
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if error.kind() == ErrorKind::ArgumentConflict => {
            let message = format!(
                "unexpected argument '{name}' found: only a model and a mountpoint are named; \
                 a name with blanks needs quotes"
            );
            Cli::command().error(ErrorKind::UnknownArgument, message)
        }
        _ => error,
    }
}

fn print_version(of_system: bool) -> Result<(), Error> {
    let mut text = concat!("gguf-fs ", env!("CARGO_PKG_VERSION"), "\n").to_owned();
    if of_system {
        text += &format!("decoders: {}\n{}", Isa::best().name(), mount::system());
    }
    finish(std::io::stdout().write_all(text.as_bytes()))
}

impl Mount {
    fn run(self) -> Result<ExitCode, Error> {
        if let Some(verb) =
            self.model.as_ref().filter(|m| Cli::command().find_subcommand(m).is_some())
        {
            let message =
                format!("options go after the verb: gguf-fs {} [OPTIONS]", verb.display());
            Cli::command().error(ErrorKind::ArgumentConflict, message).exit()
        }
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
