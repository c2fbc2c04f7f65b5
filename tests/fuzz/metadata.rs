//! Any bytes as metadata values: the input is cut into keys and values that are well-formed, of
//! every type, nested too, in every layout. So nothing is refused, and what is fuzzed is the text.
#![no_main]

mod whole;

use libfuzzer_sys::fuzz_target;

/// Levels of arrays, the deepest that is accepted.
const LEVELS: u32 = 4;

/// Arrays are empty once the file is as large as this.
const ENOUGH: usize = 256 << 10;

/// Type ids of strings and arrays.
const STRING: u8 = 8;
const ARRAY: u8 = 9;

fuzz_target!(|input: &[u8]| {
    let mut input = Input(input);
    let shape = input.byte();
    let mut out = Out { bytes: b"GGUF".to_vec(), version: 1 + shape % 3, big: shape & 0x80 != 0 };
    out.u32(out.version.into());
    out.count(0);
    let keys_at = out.bytes.len();
    out.count(0);
    let mut keys = 0;
    while !input.0.is_empty() && keys < 64 {
        let length = input.byte() % 24;
        let name = input.some(length);
        // The one key that a reader must understand.
        let name = if name == b"general.alignment" { b"" } else { name };
        out.count(name.len() as u64);
        out.bytes.extend(name);
        let id = input.byte() % 13;
        out.u32(id.into());
        value(&mut input, &mut out, id, 1);
        keys += 1;
    }
    let mut counted = Out { bytes: Vec::new(), ..out };
    counted.count(keys);
    out.bytes.splice(keys_at..keys_at + counted.bytes.len(), counted.bytes);

    let mut state = u64::from(shape) | 1;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 16) % below.max(1)
    };
    let model = whole::open(&out.bytes, false).unwrap_or_else(|e| panic!("{e}"));
    whole::check(model, false, &mut random);
});

/// A value of a type, without the type.
fn value(input: &mut Input<'_>, out: &mut Out, id: u8, level: u32) {
    match id {
        STRING => {
            let length = input.byte();
            let string = input.some(length);
            out.count(string.len() as u64);
            out.bytes.extend(string);
        }
        ARRAY => {
            let mut element = input.byte() % 13;
            if element == ARRAY && level == LEVELS {
                element = STRING;
            }
            // Some arrays long enough to be read through windows and indexed.
            let len = match input.byte() {
                _ if out.bytes.len() > ENOUGH => 0,
                len @ 0..0xF0 => u32::from(len % 16),
                _ => u32::from(input.byte()) * 64,
            };
            out.u32(element.into());
            out.count(len.into());
            for _ in 0..len {
                value(input, out, element, level + 1);
            }
        }
        _ => {
            let size = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8][usize::from(id)];
            out.bytes.extend((0..size).map(|_| input.byte()));
        }
    }
}

/// What is left of the fuzzer's bytes; zeros once they are used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.some(1).first().copied().unwrap_or(0)
    }

    fn some(&mut self, most: u8) -> &'a [u8] {
        let (some, rest) = self.0.split_at(self.0.len().min(most.into()));
        self.0 = rest;
        some
    }
}

struct Out {
    bytes: Vec<u8>,
    version: u8,
    big: bool,
}

impl Out {
    fn u32(&mut self, number: u32) {
        self.bytes.extend(if self.big { number.to_be_bytes() } else { number.to_le_bytes() });
    }

    fn count(&mut self, number: u64) {
        match self.version {
            1 => self.u32(number as u32),
            _ if self.big => self.bytes.extend(number.to_be_bytes()),
            _ => self.bytes.extend(number.to_le_bytes()),
        }
    }
}
