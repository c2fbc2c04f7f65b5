//! `gguf-fs cat`: bytes of files of the tree on standard output.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::open::Opened;
use super::{Common, Error, finish};
use crate::tree::Node;
use crate::view::Scratch;

/// Bytes read and written at a time.
const PIECE: u64 = 1 << 20;

/// Write files of the tree to standard output without mounting it
///
/// The bytes are those that the files of a mount have.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  gguf-fs cat model.gguf info
  gguf-fs cat model.gguf metadata/tokenizer.ggml.tokens | sed -n 9708p
  gguf-fs cat --length 64 model.gguf tensors/output_norm.weight/f32 | od -t f4")]
pub(super) struct Cat {
    /// Start this many bytes into each file
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Write at most this many bytes of each file
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    length: u64,
    /// The model file, or one shard of a split model
    #[arg(value_hint = ValueHint::FilePath)]
    model: PathBuf,
    /// Files of the tree
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::Other)]
    paths: Vec<OsString>,
    #[command(flatten)]
    pub common: Common,
}

impl Cat {
    pub fn run(&self) -> Result<(), Error> {
        let opened = Opened::new(&self.model, &self.common)?;
        // The descriptor itself: std's stdout would search each piece for line ends and copy the rest.
        let mut out: File = match io::stdout().as_fd().try_clone_to_owned() {
            Ok(out) => out.into(),
            Err(e) => return finish(Err(e)),
        };
        let mut scratch = Scratch::default();
        self.paths.iter().try_for_each(|path| self.copy(&opened, path, &mut out, &mut scratch))
    }

    fn copy(
        &self,
        opened: &Opened,
        path: &OsStr,
        out: &mut File,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let file = match opened.find(path)? {
            (_, Node::File(file)) => file,
            (_, Node::Dir) => return Err(opened.error(path, "is a directory")),
        };
        let end = self.offset.saturating_add(self.length);
        let mut offset = self.offset;
        while offset < end {
            let len = (end - offset).min(PIECE) as usize;
            let bytes = opened.views.read(file, offset, len, scratch);
            let bytes = bytes.map_err(|e| opened.error(path, e))?;
            if bytes.is_empty() {
                break;
            }
            offset += bytes.len() as u64;
            finish(out.write_all(bytes))?;
        }
        Ok(())
    }
}
