//! Any bytes as blocks of any type: every level gives the bits of the scalar decoder, and writes
//! all elements and no others. Bits of a NaN beyond its being one are not compared.
#![no_main]

use gguf_fs::ggml::{TABLE, isa::Isa};
use libfuzzer_sys::fuzz_target;

/// A value that no decoder gives: a NaN with bits of its own.
const UNTOUCHED: u32 = 0xFFC0_5A5A;

fuzz_target!(|input: &[u8]| {
    let Some((&row, bytes)) = input.split_first() else { return };
    let ty = &TABLE[usize::from(row) % TABLE.len()];
    let (len, size) = (ty.block_len as usize, ty.block_bytes as usize);
    let blocks = bytes.len() / size;
    let src = &bytes[..blocks * size];
    let elements = blocks * len;
    let decoded = Isa::ALL.map(|isa| {
        let mut dst = vec![f32::from_bits(UNTOUCHED); elements + 1];
        ty.decode_with(isa, src, &mut dst[..elements]);
        assert_eq!(dst[elements].to_bits(), UNTOUCHED, "{} writes past its end", ty.name);
        dst.truncate(elements);
        dst
    });
    for (isa, values) in Isa::ALL.iter().zip(&decoded) {
        for (i, (value, scalar)) in values.iter().zip(&decoded[0]).enumerate() {
            assert_ne!(value.to_bits(), UNTOUCHED, "{} {} leaves {i} out", ty.name, isa.name());
            assert!(
                value.to_bits() == scalar.to_bits() || (value.is_nan() && scalar.is_nan()),
                "{} {} at {i}: {value:?}, scalar {scalar:?}",
                ty.name,
                isa.name()
            );
        }
    }
    // One block after the other gives what all at once give.
    for (block, all) in src.chunks(size).zip(decoded[0].chunks(len)) {
        let mut alone = vec![0.0; len];
        ty.decode(block, &mut alone);
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(alone.iter().zip(all).all(same), "{}", ty.name);
    }
    if ty.has_big_endian() {
        let mut swapped = src.to_vec();
        ty.swap_bytes(&mut swapped);
        ty.swap_bytes(&mut swapped);
        assert_eq!(swapped, src, "{}", ty.name);
    }
});
