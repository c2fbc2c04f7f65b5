//! The binary driven as a child: a directory of its own, a model in it, a mount, and an end to all of
//! it whatever the test does.
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use super::temp::TempDir;

/// How long anything may take that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_gguf-fs");

/// Waits until `done` or the end of patience; whether it is done.
pub fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    done()
}

/// A directory with a mountpoint `mnt` and a model, both gone afterwards.
pub struct Place {
    _temp: TempDir,
    pub dir: PathBuf,
    pub model: PathBuf,
    pub point: PathBuf,
}

impl Place {
    /// With a model of these bytes, called `model.gguf`.
    pub fn new(model: &[u8]) -> Place {
        Place::named(OsStr::new("model.gguf"), model)
    }

    pub fn named(name: &OsStr, model: &[u8]) -> Place {
        let temp = TempDir::new();
        // As /proc/self/mountinfo has it.
        let dir = temp.path().canonicalize().unwrap();
        let place = Place { _temp: temp, model: dir.join(name), point: dir.join("mnt"), dir };
        fs::create_dir(&place.point).unwrap();
        fs::write(&place.model, model).unwrap();
        place
    }

    /// With a model that is somewhere else.
    pub fn of(model: &Path) -> Place {
        let mut place = Place::new(b"");
        place.model = model.to_owned();
        place
    }

    /// `gguf-fs ARGS` in this directory, to its end.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        output(Command::new(PROGRAM).args(args).current_dir(&self.dir))
    }

    /// `gguf-fs ARGS MODEL MOUNTPOINT` in the background; its output once it returns.
    pub fn mount(&self, args: &[&str]) -> Output {
        output(Command::new(PROGRAM).args(args).arg(&self.model).arg(&self.point))
    }

    /// As [`Place::mount`], and it must have worked.
    pub fn mounted(&self, args: &[&str]) -> &Place {
        let output = self.mount(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cannot mount (is /dev/fuse usable here?): {said}");
        assert!(self.is_mounted(), "it says it mounted, and has not");
        self
    }

    /// In the foreground, once it answers.
    pub fn foreground(&self, args: &[&str]) -> Foreground {
        let mut command = Command::new(PROGRAM);
        command.arg("-f").args(args).arg(&self.model).arg(&self.point);
        self.foreground_of(command)
    }

    /// A command that mounts here and stays.
    pub fn foreground_of(&self, mut command: Command) -> Foreground {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut daemon = Foreground(Some(child.spawn().unwrap()));
        let up = wait_until(|| daemon.has_ended() || self.answers());
        if !up || daemon.has_ended() {
            panic!("cannot mount (is /dev/fuse usable here?): {}", daemon.kill_and_read());
        }
        daemon
    }

    /// Whether the mountpoint shows another filesystem than its directory, and one that answers.
    pub fn answers(&self) -> bool {
        let device = |p: &Path| fs::metadata(p).map(|m| m.dev()).ok();
        device(&self.point).is_some_and(|d| Some(d) != device(&self.dir))
            && self.point.join("info").exists()
    }

    pub fn is_mounted(&self) -> bool {
        self.mounts() > 0
    }

    /// How many filesystems are mounted at the mountpoint, one on top of another.
    pub fn mounts(&self) -> usize {
        let wanted = self.point.to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.lines().filter(|l| l.split(' ').nth(4) == Some(wanted)).count()
    }

    /// Processes of the program that were started on this mountpoint.
    pub fn daemons(&self) -> Vec<u32> {
        let is_ours = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut args = line.split(|&b| b == 0);
            args.next().is_some_and(|a| a == PROGRAM.as_bytes())
                && args.any(|a| a == self.point.as_os_str().as_encoded_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).collect()
    }

    /// Sends a signal by name to every daemon here.
    pub fn signal(&self, name: &str) {
        for pid in self.daemons() {
            signal(pid, name);
        }
    }

    /// The file of the tree.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.point.join(inside)
    }

    pub fn read(&self, inside: &str) -> Vec<u8> {
        fs::read(self.path(inside)).unwrap_or_else(|e| panic!("{inside}: {e}"))
    }

    /// Unmounts as this user can.
    pub fn umount(&self) -> Output {
        self.unmount(&[])
    }

    /// Unmounts though files are open.
    pub fn umount_lazily(&self) -> Output {
        self.unmount(if is_root() { &["-l"] } else { &["-z"] })
    }

    fn unmount(&self, args: &[&str]) -> Output {
        let mut command = Command::new(if is_root() { "umount" } else { "fusermount3" });
        if !is_root() {
            command.arg("-u");
        }
        output(command.args(args).arg(&self.point))
    }

    /// Nothing mounted and no process left, soon.
    pub fn is_clean(&self) -> bool {
        wait_until(|| !self.is_mounted() && self.daemons().is_empty())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for _ in 0..self.mounts() {
            self.umount_lazily();
        }
        self.signal("KILL");
    }
}

/// A daemon that is our own child.
pub struct Foreground(Option<Child>);

impl Foreground {
    pub fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// How it ended, which it must do soon.
    pub fn wait(&mut self) -> ExitStatus {
        let child = self.0.as_mut().unwrap();
        let ended = wait_until(|| child.try_wait().unwrap().is_some());
        assert!(ended, "the daemon does not end");
        child.wait().unwrap()
    }

    /// Ends it and returns what it wrote to standard error.
    pub fn kill_and_read(&mut self) -> String {
        let mut child = self.0.take().unwrap();
        let _ = child.kill();
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned()
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Whether this test can do what only root may; says so if not.
pub fn root_or_left_out(test: &str) -> bool {
    if !is_root() {
        eprintln!("LEFT OUT: {test}, which only root can do");
    }
    is_root()
}

pub fn signal(pid: u32, name: &str) {
    Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
}

/// The output of a command that must end by itself, soon.
pub fn output(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let pid = child.id();
    let (done, waiting) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || done.send(child.wait_with_output()));
    let output = match waiting.recv_timeout(PATIENCE * 3) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            signal(pid, "KILL");
            panic!("{command:?} does not end");
        }
    };
    reader.join().unwrap().unwrap();
    output
}

/// A command's standard output, its success asserted.
pub fn stdout(command: &mut Command) -> Vec<u8> {
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said} {:?}", output.status.signal());
    output.stdout
}

/// A failed command's one line on standard error.
pub fn one_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches('\n').count(), 1, "more or less than one line: {said}");
    assert!(said.starts_with("gguf-fs: ") && said.ends_with('\n'), "{said}");
    said
}
