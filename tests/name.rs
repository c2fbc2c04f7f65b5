//! File names: escaping, its inverse, and the limit of 255 bytes.

mod common;

use common::random::Random;
use gguf_fs::name::{MAX, escape, file_name, unescape};

#[test]
fn only_what_cannot_be_a_file_name_is_escaped() {
    for (name, escaped) in [
        (&b"blk.0.ffn_down.weight"[..], &b"blk.0.ffn_down.weight"[..]),
        (b"a b\"'\\*?~-", b"a b\"'\\*?~-"),
        (b"a/b", b"a%2Fb"),
        (b"../up", b"..%2Fup"),
        (b"100%", b"100%25"),
        (b"a%2Fb", b"a%252Fb"),
        (b".", b"%2E"),
        (b"..", b"%2E%2E"),
        (b"...", b"..."),
        (b".hidden", b".hidden"),
        (b"", b"%empty"),
        (b"%empty", b"%25empty"),
        (b"\0\n\x1f \x7e\x7f", b"%00%0A%1F \x7e%7F"),
        (
            "\u{80}\u{9f}\u{a0}é模🦙".as_bytes(),
            b"%C2%80%C2%9F\xc2\xa0\xc3\xa9\xe6\xa8\xa1\xf0\x9f\xa6\x99",
        ),
        (b"\xff\xc2\x80\xc2\xc2\x85\x80\x9f\xc2", b"\xff%C2%80\xc2%C2%85\x80\x9f\xc2"),
    ] {
        assert_eq!(escape(name), escaped, "{}", name.escape_ascii());
        assert_eq!(unescape(escaped).as_deref(), Some(name));
    }
    for never_made in
        [&b"."[..], b"..", b"", b"/", b"%", b"%2", b"%41", b"%2f", b"a%#2", b"%2E%2Ex"]
    {
        assert_eq!(unescape(never_made), None, "{}", never_made.escape_ascii());
    }
}

#[test]
fn any_bytes_come_back_from_their_escaped_form() {
    let mut random = Random::new();
    for _ in 0..20_000 {
        let len = random.below(12) as usize;
        let mut name = random.bytes(len);
        for byte in &mut name {
            if random.below(3) == 0 {
                *byte = *random.pick(b"./%\xc2\x80\x9f\x7f\n2E");
            }
        }
        let escaped = escape(&name);
        assert_eq!(unescape(&escaped), Some(name.clone()), "{}", name.escape_ascii());
        assert!(!escaped.iter().any(|b| matches!(b, 0..0x20 | 0x7f | b'/')));
        assert!(!escaped.windows(2).any(|w| w[0] == 0xc2 && (0x80..=0x9f).contains(&w[1])));
        assert!(![&b""[..], b".", b".."].contains(&&*escaped));
    }
}

#[test]
fn a_long_name_is_cut_between_characters_and_escapes() {
    // The published FNV-1a vector for "a" stands for the rest.
    let hash = |name: &[u8]| {
        name.iter()
            .fold(0xcbf29ce484222325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100000001b3))
    };
    assert_eq!(hash(b"a"), 0xaf63dc4c8601ec8c);
    let check = |name: &[u8], kept: usize| {
        let expected =
            [&escape(name)[..kept], format!("%~{:016x}", hash(name)).as_bytes()].concat();
        let found = file_name(name, 1, "");
        assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
        assert!(found.len() <= MAX);
    };
    let x = |n: usize| vec![b'x'; n];
    assert_eq!(file_name(&x(255), 1, ""), x(255));
    check(&x(256), 237);
    check(&[x(236), b"/".repeat(20)].concat(), 236);
    check(&[x(235), b"/".repeat(20)].concat(), 235);
    check(&[x(234), b"/".repeat(20)].concat(), 237);
    for (character, len) in [("é", 2), ("模", 3), ("🦙", 4)] {
        for before in 230..=237 {
            let name = [x(before), character.repeat(30).into()].concat();
            check(&name, before + (237 - before) / len * len);
        }
    }
    // A character that is escaped, in two escapes.
    for before in 230..=237 {
        let name = [x(before), "\u{85}".repeat(30).into()].concat();
        check(&name, before + (237 - before) / 6 * 6);
    }
    // No character, so nothing to keep together.
    check(&[x(236), vec![0xe6, 0xa8, b'y'], x(30)].concat(), 237);
    check(&[x(236), vec![0x80; 30]].concat(), 237);
}

#[test]
fn a_duplicate_or_an_ending_makes_a_long_name_shorter() {
    let name = vec![b'x'; 300];
    let text =
        |ordinal, ending| String::from_utf8(file_name(&name, ordinal, ending).into()).unwrap();
    for (ordinal, ending, tail) in
        [(1, "", ""), (2, "", "%#2"), (1, ".npy", ".npy"), (12, ".npy", "%#12.npy")]
    {
        let found = text(ordinal, ending);
        assert_eq!(found.len(), 255);
        assert!(found.starts_with(&"x".repeat(237 - tail.len())));
        assert_eq!(&found[237 - tail.len()..239 - tail.len()], "%~");
        assert!(found.ends_with(tail), "{found}");
    }
    assert_eq!(*file_name(b"a", 2, ".npy"), b"a%#2.npy"[..]);
    assert_eq!(file_name(&name[..251], 1, ".npy").len(), 255);
    assert!(file_name(&name[..251], 1, ".npy").ends_with(b"xx.npy"));
    assert!(file_name(&name[..252], 1, ".npy").starts_with(&[b'x'; 233]));
    assert_eq!(file_name(&name[..252], 1, ".npy")[233], b'%');
    assert!(file_name(&name[..253], 2, "").starts_with(&[b'x'; 234]));
}
