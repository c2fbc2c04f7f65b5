//! A model opened, with its tree and its files.

use std::path::Path;
use std::sync::Arc;

use gguf_fs::model::Model;
use gguf_fs::source::ReadError;
use gguf_fs::tree::{Node, ROOT, Tree};
use gguf_fs::view::{File, Scratch, Views};

use super::gguf_builder::GgufBuilder;
use super::temp::TempDir;

pub struct Opened {
    pub model: Arc<Model>,
    pub tree: Tree,
    pub views: Views,
    /// Where its file is, if it was made for this.
    pub dir: Option<TempDir>,
}

impl Opened {
    pub fn new(path: &Path) -> Opened {
        Opened::of(Model::open(path, false).unwrap_or_else(|e| panic!("{e}")))
    }

    pub fn of(model: Model) -> Opened {
        let model = Arc::new(model);
        let (tree, views) = (Tree::new(model.clone()), Views::new(model.clone()));
        Opened { model, tree, views, dir: None }
    }

    pub fn built(builder: &GgufBuilder) -> Opened {
        Opened::of_bytes(&builder.build())
    }

    pub fn of_bytes(bytes: &[u8]) -> Opened {
        let dir = TempDir::new();
        let path = dir.file("model.gguf", bytes);
        Opened { dir: Some(dir), ..Opened::new(&path) }
    }

    /// The file of a path.
    pub fn file(&self, path: impl AsRef<[u8]>) -> File {
        let path = path.as_ref();
        match self.tree.resolve(path).and_then(|ino| self.tree.node(ino)) {
            Some(Node::File(file)) => file,
            other => panic!("{}: {other:?} is no file", path.escape_ascii()),
        }
    }

    /// The whole of a file, by one read; its size is as announced.
    pub fn cat(&self, file: File) -> Result<Vec<u8>, ReadError> {
        let size = self.views.size(file)?;
        let mut scratch = Scratch::default();
        let all = self.views.read(file, 0, size as usize + 10, &mut scratch)?;
        assert_eq!(all.len() as u64, size, "{file:?}");
        Ok(all.to_vec())
    }

    /// The whole of a file by its path.
    pub fn bytes(&self, path: impl AsRef<[u8]>) -> Vec<u8> {
        self.cat(self.file(path)).unwrap()
    }

    pub fn text(&self, path: impl AsRef<[u8]>) -> String {
        String::from_utf8(self.bytes(path)).unwrap()
    }

    /// Names in a directory, in the order of a listing.
    pub fn names(&self, path: &str) -> Vec<String> {
        let dir = self.tree.resolve(path.as_bytes()).expect(path);
        let name = |at| self.tree.entry(dir, at).map(|e| e.name.escape_ascii().to_string());
        (0..).map_while(name).collect()
    }

    /// Every node below the root with its path.
    pub fn walk(&self) -> Vec<(Vec<u8>, u64)> {
        let mut found = Vec::new();
        let mut dirs = vec![(Vec::new(), ROOT)];
        while let Some((path, dir)) = dirs.pop() {
            for entry in (0..).map_while(|at| self.tree.entry(dir, at)) {
                let path = [&path[..], b"/", &entry.name].concat();
                if entry.is_dir {
                    dirs.push((path.clone(), entry.ino));
                }
                found.push((path, entry.ino));
            }
        }
        found
    }

    /// Every file with its path.
    pub fn files(&self) -> Vec<(Vec<u8>, File)> {
        let file = |(path, ino)| match self.tree.node(ino) {
            Some(Node::File(file)) => Some((path, file)),
            _ => None,
        };
        self.walk().into_iter().filter_map(file).collect()
    }
}
