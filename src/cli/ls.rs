//! `gguf-fs ls`: the names of a directory of the tree, with sizes when asked for.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use super::open::Opened;
use super::{Common, Error, finish};
use crate::tree::Node;

#[derive(Args, Debug)]
pub(super) struct Ls {
    /// Mode, size in bytes and name, one a line
    #[arg(short)]
    long: bool,
    /// The model file, or one shard of a split model
    model: PathBuf,
    /// A directory or file of the tree; its root when not given
    #[arg(default_value = "")]
    path: OsString,
    #[command(flatten)]
    pub common: Common,
}

impl Ls {
    pub fn run(&self) -> Result<(), Error> {
        let opened = Opened::new(&self.model, &self.common)?;
        let (ino, node) = opened.find(&self.path)?;
        let mut out = BufWriter::new(io::stdout().lock());
        match node {
            Node::File(_) => self.line(&opened, &mut out, ino, self.path.as_bytes())?,
            Node::Dir => {
                let entries = (0..).map_while(|position| opened.tree.entry(ino, position));
                for entry in entries {
                    self.line(&opened, &mut out, entry.ino, &entry.name)?;
                }
            }
        }
        finish(out.flush())
    }

    fn line(
        &self,
        opened: &Opened,
        out: &mut impl Write,
        ino: u64,
        name: &[u8],
    ) -> Result<(), Error> {
        let mut line = Vec::new();
        if self.long {
            let (mode, size) = match opened.tree.node(ino) {
                Some(Node::File(file)) => {
                    let size = opened.views.size(file);
                    ("-r--r--r--", size.map_err(|e| opened.error(OsStr::from_bytes(name), e))?)
                }
                _ => ("dr-xr-xr-x", 0),
            };
            line.extend(format!("{mode} {size:>14} ").into_bytes());
        }
        line.extend(name);
        line.push(b'\n');
        finish(out.write_all(&line))
    }
}
