//! Any names, separated by zero bytes, as entries of one directory: file names are sound, differ,
//! are found again, and escaping has an inverse.
#![no_main]

use std::collections::HashSet;

use gguf_fs::name::{Unique, escape, file_name, unescape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let names: Vec<&[u8]> = input.split(|&byte| byte == 0).collect();
    for name in &names {
        let escaped = escape(name);
        assert_eq!(unescape(&escaped).as_deref(), Some(*name));
        // What is not an escaped name has no inverse; what has one is its only form.
        if let Some(inner) = unescape(name) {
            assert_eq!(escape(&inner), *name);
        }
    }
    for ending in ["", ".npy"] {
        let label = |entry: u32, ordinal: u32| file_name(names[entry as usize], ordinal, ending);
        let entries = 0..names.len() as u32;
        let unique = Unique::new(entries.clone(), label);
        let mut seen = HashSet::new();
        for entry in entries {
            let name = label(entry, unique.ordinals.of(entry));
            sound(&name);
            assert!(name.ends_with(ending.as_bytes()));
            assert_eq!(unique.find(&name, label), Some(entry));
            assert!(seen.insert(name.into_owned()), "two entries of one name");
        }
    }
});

fn sound(name: &[u8]) {
    assert!((1..=255).contains(&name.len()), "{} bytes", name.len());
    assert!(name != b"." && name != b"..");
    assert!(!name.iter().any(|&byte| byte < 0x20 || byte == 0x7F || byte == b'/'));
    assert!(!String::from_utf8_lossy(name).chars().any(char::is_control));
}
