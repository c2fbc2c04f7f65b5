//! Q6_K: 256 elements of 6 bits, 16 groups of 16 with a signed 8-bit scale each.
//!
//! ```text
//! 0               128            192                   208  210
//! | ql: 128 bytes | qh: 64 bytes | sc: 16 signed bytes | d half |
//!
//! lane 128n + 32r + l:  low 4 bits = nibble r / 2 of ql[64n + 32*(r % 2) + l]       n < 2, r < 4, l < 32
//!                       high 2 bits = qh[32n + l] >> 2r & 3
//! group of 16 lanes g:  (d * sc[g]) * (code - 32)
//! ```

use super::isa::Simd;
use super::{bytes, groups, u16_at};

#[inline(always)]
pub(super) fn q6_k(s: impl Simd, b: &[u8; 210], y: &mut [f32; 256]) {
    let ql: &[u8; 128] = bytes(b, 0);
    let qh: &[u8; 64] = bytes(b, 128);
    let sc: &[u8; 16] = bytes(b, 192);
    let d = s.half(u16_at(b, 208));
    for (g, y) in groups::<16>(y).enumerate() {
        let a = d * f32::from(sc[g] as i8);
        let (n, r, p) = (g / 8, g / 2 % 4, g % 2);
        for l in 0..16 {
            let low = ql[64 * n + 32 * (r % 2) + 16 * p + l] >> (4 * (r / 2)) & 15;
            let high = qh[32 * n + 16 * p + l] >> (2 * r) & 3;
            y[l] = a * (i32::from(low | high << 4) - 32) as f32;
        }
    }
}
