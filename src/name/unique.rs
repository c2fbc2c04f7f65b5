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
        // By the first entry of a name: the ordinal to try next.
        let mut next: HashMap<u32, u32> = HashMap::new();
        for entry in entries {
            let mut ordinal = 1;
            if let Some(first) = names.find(&label(entry, 1), &label) {
                let try_next = next.entry(first).or_insert(2);
                while names.find(&label(entry, *try_next), &label).is_some() {
                    *try_next += 1;
                }
                ordinal = *try_next;
                *try_next += 1;
                names.ordinals.repeated.push((entry, ordinal));
            }
            let Unique { ordinals, table, hasher } = &mut names;
            let hash = |e: u32, o: u32| hasher.hash_one(&*label(e, o));
            table.insert_unique(hash(entry, ordinal), entry, |&e| hash(e, ordinals.of(e)));
        }
        names
    }

    /// The entry of a name.
    pub fn find<'a>(&self, name: &[u8], label: impl Fn(u32, u32) -> Cow<'a, [u8]>) -> Option<u32> {
        let same = |&entry: &u32| *label(entry, self.ordinals.of(entry)) == *name;
        self.table.find(self.hasher.hash_one(name), same).copied()
    }
}
