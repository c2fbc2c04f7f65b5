//! Colours, where they are wanted: on a terminal, unless NO_COLOR says otherwise.

use std::env;
use std::io::{self, IsTerminal, Write};

const FOLDER: &str = "\x1b[1;34m";
const FAINT: &str = "\x1b[2m";
const END: &str = "\x1b[0m";

/// Whether to colour.
pub(super) struct Paint(bool);

impl Paint {
    /// For standard output: <https://no-color.org>.
    pub fn for_stdout() -> Paint {
        let says_no = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        Paint(io::stdout().is_terminal() && !says_no && !is_dumb)
    }

    /// A name, folders standing out as those of ls(1) do.
    pub fn name(&self, name: &[u8], is_dir: bool, out: &mut impl Write) -> io::Result<()> {
        self.wrap(if is_dir { FOLDER } else { "" }, name, out)
    }

    /// What is beside the point.
    pub fn faint(&self, text: &str, out: &mut impl Write) -> io::Result<()> {
        self.wrap(FAINT, text.as_bytes(), out)
    }

    fn wrap(&self, colour: &str, text: &[u8], out: &mut impl Write) -> io::Result<()> {
        if !self.0 || colour.is_empty() {
            return out.write_all(text);
        }
        out.write_all(colour.as_bytes())?;
        out.write_all(text)?;
        out.write_all(END.as_bytes())
    }
}
