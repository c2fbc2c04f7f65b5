//! Any bytes as the header of a file, parsed strictly and leniently, and nothing else: many a second.
#![no_main]

mod message;

use gguf_fs::gguf::parse;
use libfuzzer_sys::fuzz_target;
use message::one_line;

fuzz_target!(|input: &[u8]| {
    for lenient in [false, true] {
        match parse(input, lenient) {
            Ok(header) => header.index.warnings.iter().for_each(|warning| one_line(warning)),
            Err(e) => one_line(&e.to_string()),
        }
    }
});
