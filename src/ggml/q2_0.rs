//! Q2_0: 64 elements of 2 bits (-1, 0, 1, 2) under one scale.
//!
//! ```text
//! 0        2                                          18
//! | d half | q: 16 bytes, bits 2*(j % 4).. of q[j / 4] = lane j |
//!
//! lane j:  (code - 1) * d
//! ```

use super::isa::Simd;
use super::{bytes, groups, u16_at, u32_at};

#[inline(always)]
pub(super) fn q2_0(s: impl Simd, b: &[u8; 18], y: &mut [f32; 64]) {
    let d = s.half(u16_at(b, 0));
    for (w, y) in groups::<f32, 16>(y).enumerate() {
        let codes = u32_at(bytes::<16>(b, 2), 4 * w);
        for j in 0..16 {
            y[j] = ((codes >> (2 * j) & 3) as i32 - 1) as f32 * d;
        }
    }
}
