//! `gguf-fs ls`: the names of a directory of the tree, or a table of what they are.

mod paint;
mod row;

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::open::Opened;
use super::{Common, Error, finish, natural};
use crate::tree::Node;
use paint::Paint;
use row::Row;

/// List a folder of the tree without mounting it
///
/// Names come in the order of the file, one a line, and are those that a mount would show.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  gguf-fs ls model.gguf
  gguf-fs ls -l --natural model.gguf tensors
  gguf-fs ls -l model.gguf metadata | grep rope
  gguf-fs ls -l model.gguf tensors | numfmt --field=2 --to=iec")]
pub(super) struct Ls {
    /// Show a table: type, bytes, name, and shape or value
    ///
    /// Bytes are exact, and the file's size in a mount; those of a tensor's folder are its raw
    /// file's. Values are cut. For scripts there are tensors.tsv and model.json in the tree.
    #[arg(short, long)]
    long: bool,
    /// Sort by name, blk.2 before blk.10
    #[arg(short, long)]
    natural: bool,
    /// The model file, or one shard of a split model
    #[arg(value_hint = ValueHint::FilePath)]
    model: PathBuf,
    /// A folder or file of the tree; its top when not given
    #[arg(default_value = "", hide_default_value = true, value_hint = ValueHint::Other)]
    path: OsString,
    #[command(flatten)]
    pub common: Common,
}

impl Ls {
    pub fn run(&self) -> Result<(), Error> {
        let opened = Opened::new(&self.model, &self.common)?;
        let (ino, node) = opened.find(&self.path)?;
        let mut entries: Vec<(u64, &[u8])> = Vec::new();
        let listed;
        match node {
            Node::File(_) => entries.push((ino, self.path.as_bytes())),
            Node::Dir => {
                let all = (0..).map_while(|position| opened.tree.entry(ino, position));
                listed = all.collect::<Vec<_>>();
                entries.extend(listed.iter().map(|entry| (entry.ino, &*entry.name)));
            }
        }
        if self.natural {
            entries.sort_by(|a, b| natural::compare(a.1, b.1));
        }
        let paint = Paint::for_stdout();
        let mut out = BufWriter::new(io::stdout().lock());
        let written = if self.long {
            let rows = entries.iter().map(|(ino, name)| {
                let row = Row::new(&opened, *ino, name);
                row.map_err(|e| opened.error(OsStr::from_bytes(name), e))
            });
            row::write(&rows.collect::<Result<Vec<_>, _>>()?, &paint, &mut out)
        } else {
            entries.iter().try_for_each(|(ino, name)| {
                let is_dir = opened.tree.node(*ino) == Some(Node::Dir);
                paint.name(name, is_dir, &mut out)?;
                out.write_all(b"\n")
            })
        };
        finish(written.and_then(|()| out.flush()))
    }
}
