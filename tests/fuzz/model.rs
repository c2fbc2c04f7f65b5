//! Any bytes as a model file, opened strictly and leniently; then everything in its tree is read.
#![no_main]

mod whole;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // Windows that are random, but the same for the same input.
    let mut state = input.iter().fold(1u64, |s, &b| (s ^ u64::from(b)).wrapping_mul(0x100000001B3));
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 16) % below.max(1)
    };
    let strict = whole::open(input, false);
    let lenient = whole::open(input, true);
    match strict {
        Ok(model) => whole::check(model, false, &mut random),
        Err(e) => one_line(&e.to_string()),
    }
    match lenient {
        Ok(model) => {
            model.warnings.iter().for_each(|warning| one_line(warning));
            whole::check(model, true, &mut random);
        }
        Err(e) => one_line(&e.to_string()),
    }
});

fn one_line(message: &str) {
    assert!(!message.is_empty() && !message.chars().any(char::is_control), "{message:?}");
    assert!(message.len() < 4096, "a message of {} bytes", message.len());
}
