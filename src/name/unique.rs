//! Telling entries apart that would have the same name: an ordinal each, found again by name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Which entries are not the first of their name. Almost none, so only those take memory.
#[derive(Debug, Default)]
pub struct Ordinals {
    /// Entry and ordinal, by entry.
    repeated: Vec<(u32, u32)>,
}

impl Ordinals {
    /// 1 for the first entry of a name, 2 for the second…
    pub fn of(&self, entry: u32) -> u32 {
        let found = self.repeated.binary_search_by_key(&entry, |r| r.0);
        found.ok().and_then(|at| self.repeated.get(at)).map_or(1, |r| r.1)
    }
}

/// Entries by names that are all different. Names are not kept, but made anew by the `label` that
/// every call is given: the name of an entry with an ordinal.
#[derive(Debug, Default)]
pub struct Unique {
    /// The ordinals that make the names different.
    pub ordinals: Ordinals,
    table: HashTable<u32>,
    hasher: RandomState,
}

impl Unique {
    /// Gives the `entries`, which ascend, their ordinals: each the lowest that makes a new name.
    pub fn new<'a>(
        entries: impl ExactSizeIterator<Item = u32>,
        label: impl Fn(u32, u32) -> Cow<'a, [u8]>,
    ) -> Unique {
        let mut names = Unique {
            ordinals: Ordinals::default(),
            table: HashTable::with_capacity(entries.len()),
            hasher: RandomState::new(),
        };
        // By the first entry of a name: the last ordinal given.
        let mut next: HashMap<u32, u32> = HashMap::new();
        for entry in entries {
            let mut name = label(entry, 1);
            let mut hash = names.hasher.hash_one(&*name);
            if let Some(first) = names.find_hashed(hash, &name, &label) {
                let ordinal = next.entry(first).or_insert(1);
                while names.find_hashed(hash, &name, &label).is_some() {
                    *ordinal += 1;
                    name = label(entry, *ordinal);
                    hash = names.hasher.hash_one(&*name);
                }
                names.ordinals.repeated.push((entry, *ordinal));
            }
            // There is room for all: no hash is asked for again.
            let Unique { ordinals, table, hasher } = &mut names;
            table.insert_unique(hash, entry, |&e| hasher.hash_one(&*label(e, ordinals.of(e))));
        }
        names
    }

    /// The entry of a name.
    pub fn find<'a>(&self, name: &[u8], label: impl Fn(u32, u32) -> Cow<'a, [u8]>) -> Option<u32> {
        self.find_hashed(self.hasher.hash_one(name), name, label)
    }

    fn find_hashed<'a>(
        &self,
        hash: u64,
        name: &[u8],
        label: impl Fn(u32, u32) -> Cow<'a, [u8]>,
    ) -> Option<u32> {
        let same = |&entry: &u32| *label(entry, self.ordinals.of(entry)) == *name;
        self.table.find(hash, same).copied()
    }
}
