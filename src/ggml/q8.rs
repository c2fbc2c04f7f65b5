//! Q8_0, Q8_1 and Q8_K: signed bytes under one scale. The sums that Q8_1 and Q8_K carry serve dot products only.
//!
//! ```text
//! Q8_0   0        2                                   34
//!        | d half | q: 32 signed bytes                 |
//! Q8_1   0        2        4                          36
//!        | d half | s half | q: 32 signed bytes        |
//! Q8_K   0        4                     260          292
//!        | d f32  | q: 256 signed bytes | sums: 16 i16 |
//!
//! lane j:  q[j] * d
//! ```

use super::isa::Simd;
use super::{bytes, u16_at, u32_at};

#[inline(always)]
pub(super) fn q8_0(s: impl Simd, b: &[u8; 34], y: &mut [f32; 32]) {
    scaled(s.half(u16_at(b, 0)), bytes(b, 2), y);
}

#[inline(always)]
pub(super) fn q8_1(s: impl Simd, b: &[u8; 36], y: &mut [f32; 32]) {
    scaled(s.half(u16_at(b, 0)), bytes(b, 4), y);
}

#[inline(always)]
pub(super) fn q8_k(_: impl Simd, b: &[u8; 292], y: &mut [f32; 256]) {
    scaled(f32::from_bits(u32_at(b, 0)), bytes(b, 4), y);
}

#[inline(always)]
fn scaled<const N: usize>(d: f32, q: &[u8; N], y: &mut [f32; N]) {
    for j in 0..N {
        y[j] = f32::from(q[j] as i8) * d;
    }
}
