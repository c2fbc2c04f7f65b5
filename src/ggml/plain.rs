//! The types without blocks: one element each, widened or rounded to `f32`.

use super::isa::Simd;

/// Types of Rust's own, converted as `as f32` does: to nearest, ties to even.
macro_rules! element {
    ($($name:ident: $from:ty, $bytes:literal;)*) => {$(
        #[inline(always)]
        pub(super) fn $name(_: impl Simd, b: &[u8; $bytes], y: &mut [f32; 1]) {
            y[0] = <$from>::from_le_bytes(*b) as f32;
        }
    )*};
}

element! {
    f64: f64, 8;
    i8: i8, 1;
    i16: i16, 2;
    i32: i32, 4;
    i64: i64, 8;
}

/// F32: the bits themselves, NaNs included.
#[inline(always)]
pub(super) fn f32(_: impl Simd, b: &[u8; 4], y: &mut [f32; 1]) {
    y[0] = f32::from_bits(u32::from_le_bytes(*b));
}

/// BF16: the upper half of the bits.
#[inline(always)]
pub(super) fn bf16(_: impl Simd, b: &[u8; 2], y: &mut [f32; 1]) {
    y[0] = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
}

/// F16: an IEEE half.
#[inline(always)]
pub(super) fn f16(s: impl Simd, b: &[u8; 2], y: &mut [f32; 1]) {
    y[0] = s.half_lane(u16::from_le_bytes(*b));
}
