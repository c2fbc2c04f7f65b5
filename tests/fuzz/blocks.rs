//! Any bytes as blocks of any type: every level gives the bits of the scalar decoder, and writes
//! all elements and no others. Bits of a NaN beyond its being one are not compared.
#![no_main]

use gguf_fs::ggml::{TABLE, isa::Isa};
use libfuzzer_sys::fuzz_target;

/// What the elements are before; an element that is left out differs from one to the other.
const BEFORE: [f32; 2] = [1.0, 2.0];

fuzz_target!(|input: &[u8]| {
    let Some((&row, bytes)) = input.split_first() else { return };
    let ty = &TABLE[usize::from(row) % TABLE.len()];
    let (len, size) = (ty.block_len as usize, ty.block_bytes as usize);
    let blocks = bytes.len() / size;
    let src = &bytes[..blocks * size];
    let mut scalar = vec![0.0; blocks * len];
    ty.decode_scalar(src, &mut scalar);
    for isa in Isa::ALL {
        for before in BEFORE {
            let mut values = vec![before; blocks * len + 1];
            ty.decode_with(isa, src, &mut values[..blocks * len]);
            assert_eq!(values.pop(), Some(before), "{} {} past its end", ty.name, isa.name());
            same(&values, &scalar, |at| format!("{} {} at {at}", ty.name, isa.name()));
        }
    }
    // One block after the other gives what all at once give.
    for (block, all) in src.chunks(size).zip(scalar.chunks(len)) {
        let mut alone = vec![0.0; len];
        ty.decode(block, &mut alone);
        same(&alone, all, |at| format!("{} alone, at {at}", ty.name));
    }
    if ty.has_big_endian() {
        let mut swapped = src.to_vec();
        ty.swap_bytes(&mut swapped);
        ty.swap_bytes(&mut swapped);
        assert_eq!(swapped, src, "{}", ty.name);
    }
});

fn same(values: &[f32], expected: &[f32], place: impl Fn(usize) -> String) {
    for (at, (a, b)) in values.iter().zip(expected).enumerate() {
        let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(same, "{}: {a:?}, not {b:?}", place(at));
    }
}
