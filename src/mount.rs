//! The life of a mount: check, open, mount, serve, unmount.
//!
//! The mounting is done here and fuser is only given the connection: so nothing but
//! [`Attached::detach`] ever unmounts, and it touches exactly our own mount.

mod attached;
mod background;
mod device;
mod error;
mod fusermount;
mod memory;
mod mountinfo;
mod options;
mod point;
mod privileges;
mod signals;
mod system;
mod watcher;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{BackgroundSession, Session, SessionACL};
use log::warn;

pub use error::Error;
pub use options::Options;
pub use system::system;

use crate::fuse::{Gguf, Owner};
use crate::message::shown;
use crate::model::Model;
use attached::Attached;
use background::{Ready, Side};
use mountinfo::Table;
use signals::Signals;
use watcher::Watcher;

/// How long readers of an unmounted filesystem are still served after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// Threads that serve requests: some more than cores, so that a read which waits for the disk does
/// not hold up the others; not many more, since each has its own buffers.
const THREADS: std::ops::RangeInclusive<usize> = 4..=16;

/// Warnings about the model that are printed; the rest is only counted.
const MAX_WARNINGS: usize = 10;

/// What to mount where, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The model file, or one of its shards.
    pub model: PathBuf,
    /// An existing directory.
    pub mountpoint: PathBuf,
    /// From `-o`.
    pub options: Options,
    /// Show what can be shown of a damaged file.
    pub lenient: bool,
    /// Stay in the foreground.
    pub foreground: bool,
}

/// Mounts. In the foreground it returns when the mount has ended; otherwise as soon as the mount
/// answers, while a child process serves it.
///
/// Must be called before the process has a second thread.
///
/// # Errors
/// Why there is no mount. A child has then printed its error itself, and the status is the child's.
pub fn run(request: &Request) -> Result<ExitCode, Error> {
    let ready = if request.foreground {
        Ready::foreground()
    } else {
        match background::start().map_err(Error::io(&request.mountpoint))? {
            Side::Parent(child) => return child.wait(&request.mountpoint),
            Side::Child(ready) => ready,
        }
    };
    mount(request, ready)?;
    Ok(ExitCode::SUCCESS)
}

fn mount(request: &Request, ready: Ready) -> Result<(), Error> {
    let point = point::check(&request.mountpoint)?;
    let model = Arc::new(Model::open(&request.model, request.lenient)?);
    let (path, modified) = first_file(&model);
    let options = &request.options;
    let filesystem = Gguf::new(model.clone(), modified, owner(options));

    let source = options.fsname.as_deref().unwrap_or(path.as_os_str());
    // Until here a signal may simply end the process: there is nothing to undo.
    let signals = Signals::block(request.foreground).map_err(Error::io(&point))?;
    let threads = memory::threads(threads()).ok_or_else(|| Error::NoMemory(point.clone()))?;
    let table = Table::open().map_err(Error::io(Path::new(mountinfo::TABLE)))?;
    let lock = point::lock(&point);
    // Again, since another start may have been faster.
    let point = point::check(&point)?;
    let before = table.read().map_err(Error::io(Path::new(mountinfo::TABLE)))?;
    let device = device::mount(&point, source, options)?;
    let attached = match Attached::find(&point, &device, table, &before) {
        Ok(attached) => attached,
        Err(e) => {
            attached::undo(&point, device);
            return Err(Error::Io(point, e));
        }
    };
    drop(lock);
    privileges::drop_unneeded();
    let watcher = options.auto_unmount.then(|| Watcher::start(&attached)).transpose();
    let served = watcher.and_then(|watcher| {
        let hold = Arc::new(Hold { attached: attached.clone(), watcher });
        let served = serve(filesystem, device, threads, &hold, signals, || {
            print_warnings(&model);
            ready.report()
        });
        hold.dismiss();
        served
    });
    // Not served, or no longer: the connection was aborted. What is left would be a dead mount.
    served.inspect_err(|_| drop(attached.detach())).map_err(Error::io(&point))
}

/// What is to be undone when the mount ends.
struct Hold {
    attached: Attached,
    watcher: Option<Watcher>,
}

impl Hold {
    fn unmount(&self) -> io::Result<()> {
        let done = self.attached.detach();
        self.dismiss();
        done
    }

    fn dismiss(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.dismiss();
        }
    }
}

/// Serves `device` until the mount has ended.
fn serve(
    filesystem: Gguf,
    device: OwnedFd,
    threads: usize,
    hold: &Arc<Hold>,
    signals: Signals,
    ready: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let session = start(filesystem, device, threads)?;
    hold.attached.raise_read_ahead();
    let held = hold.clone();
    signals.then(move || {
        let done = held.unmount();
        // Without readers the session ends at once, and the process with it.
        thread::sleep(GRACE);
        std::process::exit(done.is_err().into());
    })?;
    if ready().is_err() {
        return hold.unmount();
    }
    // Ends when the last mount and the last open file have gone, whoever unmounted.
    session.join()
}

/// As many threads as this machine can use.
fn threads() -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    cores.clamp(*THREADS.start(), *THREADS.end())
}

/// Answers the kernel's first request and starts the threads that answer the others.
fn start(filesystem: Gguf, device: OwnedFd, threads: usize) -> io::Result<BackgroundSession> {
    let mut config = fuser::Config::default();
    config.n_threads = Some(threads);
    config.clone_fd = device::open().is_ok();
    // Who may look inside is the kernel's to decide, by allow_other and the modes.
    Session::from_fd(filesystem, device, SessionACL::All, config)?.spawn()
}

fn owner(options: &Options) -> Owner {
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    Owner {
        uid: options.uid.unwrap_or(uid),
        gid: options.gid.unwrap_or(gid),
        // The kernel knows only allow_other; a closed root directory keeps out all but root.
        closed_root: (options.allow_root && !options.allow_other).then_some((uid, gid)),
    }
}

/// Absolute path and time of the first file of a model.
fn first_file(model: &Model) -> (&Path, SystemTime) {
    match model.source.shards.first() {
        Some(shard) => (&shard.path, shard.modified),
        None => (Path::new(""), SystemTime::UNIX_EPOCH),
    }
}

/// Prints what is odd about the model, one line each.
pub(crate) fn print_warnings(model: &Model) {
    let path = shown(first_file(model).0);
    for warning in model.warnings.iter().take(MAX_WARNINGS) {
        warn!("{path}: {warning}");
    }
    let more = model.warnings.len().saturating_sub(MAX_WARNINGS) as u64;
    let more = more.saturating_add(model.more_warnings);
    if more > 0 {
        warn!("{path}: {more} more warnings");
    }
}
