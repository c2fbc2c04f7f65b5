//! A model opened for a verb that does not mount.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Common, Error};
use crate::message::shown;
use crate::model::Model;
use crate::mount::print_warnings;
use crate::tree::{Node, Tree};
use crate::view::Views;

/// What a mount of the model would serve.
pub(super) struct Opened {
    pub tree: Tree,
    pub views: Views,
    model: PathBuf,
}

impl Opened {
    pub fn new(path: &Path, common: &Common) -> Result<Opened, Error> {
        let model = Model::open(path, common.lenient).map_err(|e| Error(e.to_string()))?;
        let model = Arc::new(model);
        print_warnings(&model);
        let tree = Tree::new(model.clone());
        Ok(Opened { tree, views: Views::new(model), model: path.to_owned() })
    }

    /// The number and kind of what is at `path` in the tree.
    pub fn find(&self, path: &OsStr) -> Result<(u64, Node), Error> {
        let ino = self.tree.resolve(path.as_bytes());
        let found = ino.and_then(|ino| Some((ino, self.tree.node(ino)?)));
        found.ok_or_else(|| self.error(path, "no such file or directory in the model"))
    }

    pub fn error(&self, path: &OsStr, what: impl std::fmt::Display) -> Error {
        Error(format!("{}: {}: {what}", shown(&self.model), shown(Path::new(path))))
    }
}
