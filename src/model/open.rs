//! Opening a model: finding its shards, parsing each, checking that they belong together.

use std::path::{Path, PathBuf};

use super::{Model, OpenError, Problem, ShardHeader};
use crate::gguf::split::{MAX_SHARDS, ShardName, SplitKeys};
use crate::gguf::{Index, Printable, parse_shard};
use crate::source::{Shard, Source};

pub(super) fn open(path: &Path, lenient: bool) -> Result<Model, OpenError> {
    std::fs::metadata(path).map_err(|error| OpenError::new(path, Problem::Io(error)))?;
    let mut opening = Opening { lenient, ..Opening::default() };
    match Set::find(path) {
        None => opening.add_alone(path)?,
        Some(set) if set.count > MAX_SHARDS => {
            return Err(OpenError::new(path, Problem::TooManyShards { count: set.count }));
        }
        Some(set) => opening.add_set(&set)?,
    }
    let Opening { mut index, headers, shards, .. } = opening;
    index.mark_companions();
    let Index { metadata, tensors, names, dims, warnings, more_warnings, .. } = index;
    let source = Source { shards };
    Ok(Model { source, headers, metadata, tensors, warnings, more_warnings, names, dims })
}

/// The files of a split model, by nothing but their names.
struct Set {
    /// Paths of the shards, first to last.
    paths: Vec<PathBuf>,
    /// Shards by the name; more than `paths` if there are too many.
    count: u32,
    /// The shard that was named, from 1.
    named: u32,
}

impl Set {
    /// The set that a path belongs to. A link's own directory comes first: in a download cache each
    /// shard is a link to a file of another name.
    fn find(path: &Path) -> Option<Set> {
        let target = path.canonicalize().ok().filter(|_| path.is_symlink());
        let beside = Set::of(path);
        if beside.as_ref().is_some_and(Set::is_whole) {
            return beside;
        }
        let beside_target = target.and_then(|target| Set::of(&target));
        match (beside, beside_target) {
            (Some(beside), Some(other)) if !other.is_whole() => Some(beside),
            (beside, other) => other.or(beside),
        }
    }

    fn of(path: &Path) -> Option<Set> {
        let name = ShardName::parse(path.file_name()?)?;
        let numbers = 1..=name.count.min(MAX_SHARDS);
        let paths = numbers.map(|n| path.with_file_name(name.sibling(n))).collect();
        Some(Set { paths, count: name.count, named: name.number })
    }

    fn is_whole(&self) -> bool {
        self.paths.iter().all(|path| path.exists())
    }
}

/// A model while its files are opened.
#[derive(Default)]
struct Opening {
    lenient: bool,
    index: Index,
    headers: Vec<ShardHeader>,
    shards: Vec<Shard>,
    /// What each shard says of the number of all tensors.
    totals: Vec<(PathBuf, i128)>,
}

impl Opening {
    fn add_alone(&mut self, path: &Path) -> Result<(), OpenError> {
        let shard = Shard::open(path).map_err(|error| OpenError::new(path, Problem::Io(error)))?;
        let keys = self.add(path, shard)?;
        if let Some(count) = keys.count.filter(|count| *count != 1) {
            self.index.warn(|_| {
                format!(
                    "split.count is {count}, but the file is not named like a shard \
                     (<name>-00001-of-00003.gguf): it is shown alone"
                )
            });
        }
        Ok(())
    }

    fn add_set(&mut self, set: &Set) -> Result<(), OpenError> {
        let mut whole = true;
        for (number, path) in (1..).zip(&set.paths) {
            let warned = self.index.warnings.len();
            if let Err(mut error) = self.add_numbered(path, number, set.count) {
                error.lenient_helps |= number != set.named;
                if !self.lenient || number == set.named {
                    return Err(error);
                }
                self.index.warn(|_| error.problem.to_string());
                whole = false;
            }
            if set.count > 1 {
                let name = Printable(path.file_name().unwrap_or_default().as_encoded_bytes());
                for warning in self.index.warnings.iter_mut().skip(warned) {
                    *warning = format!("{name}: {warning}");
                }
            }
        }
        let expected = self.index.tensors.len() as u64;
        let misfit = self.totals.iter().find(|(_, total)| whole && *total != expected.into());
        if let Some((path, found)) = misfit.cloned() {
            self.tolerate(&path, Problem::Split { key: "split.tensors.count", found, expected })?;
        }
        Ok(())
    }

    /// Adds a shard, and checks what it says of itself against its name.
    fn add_numbered(&mut self, path: &Path, number: u32, count: u32) -> Result<(), OpenError> {
        let shard = Shard::open(path)
            .map_err(|error| OpenError::new(path, Problem::Shard { number, count, error }))?;
        let keys = self.add(path, shard)?;
        for (key, found, expected) in
            [("split.no", keys.number, number - 1), ("split.count", keys.count, count)]
        {
            if let Some(found) = found.filter(|found| *found != expected.into()) {
                self.tolerate(path, Problem::Split { key, found, expected: expected.into() })?;
            }
        }
        if keys.count.is_none() && count > 1 {
            self.index.warn(|_| "no split.count: taken for a shard by its name alone".into());
        }
        self.totals.extend(keys.tensors.map(|total| (path.into(), total)));
        Ok(())
    }

    /// Parses a file and adds it; only the first file's metadata are kept.
    fn add(&mut self, path: &Path, shard: Shard) -> Result<SplitKeys, OpenError> {
        let number = self.shards.len() as u16;
        let kept = self.index.metadata.len();
        let header = parse_shard(&shard, self.lenient, number, &mut self.index)
            .map_err(|error| OpenError::new(path, Problem::Header(error.into())))?;
        let keys = SplitKeys::of(&self.index, self.index.metadata.get(kept..).unwrap_or_default());
        if number > 0 {
            self.index.metadata.truncate(kept);
        }
        self.headers.push(header);
        self.shards.push(shard);
        Ok(keys)
    }

    fn tolerate(&mut self, path: &Path, problem: Problem) -> Result<(), OpenError> {
        if !self.lenient {
            return Err(OpenError::new(path, problem));
        }
        self.index.warn(|_| problem.to_string());
        Ok(())
    }
}
