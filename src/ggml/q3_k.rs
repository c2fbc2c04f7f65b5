//! Q3_K: 256 elements of 3 bits, 16 groups of 16 with a 6-bit scale each.
//!
//! ```text
//! 0              32             96             108   110
//! | hm: 32 bytes | q: 64 bytes  | sc: 12 bytes | d half |
//!
//! lane 128n + 32j + l:  low = q[32n + l] >> 2j & 3,  high = bit 4n + j of hm[l]    n < 2, j < 4, l < 32
//! group of 16 lanes g:  scale, low 4 bits = nibble g / 8 of sc[g % 8]
//!                       scale, high 2 bits = sc[8 + g % 4] >> 2*(g / 4) & 3
//! value:                (d * (scale - 32)) * (low - (high ? 0 : 4))
//! ```

use super::isa::Simd;
use super::{bytes, groups, u16_at};

#[inline(always)]
pub(super) fn q3_k(s: impl Simd, b: &[u8; 110], y: &mut [f32; 256]) {
    let hm: &[u8; 32] = bytes(b, 0);
    let q: &[u8; 64] = bytes(b, 32);
    let sc: &[u8; 12] = bytes(b, 96);
    let d = s.half(u16_at(b, 108));
    let mut a = [0.0; 16];
    for g in 0..16 {
        let low = sc[g % 8] >> (4 * (g / 8)) & 15;
        let high = sc[8 + g % 4] >> (2 * (g / 4)) & 3;
        a[g] = d * (i32::from(low | high << 4) - 32) as f32;
    }
    for (g, y) in groups::<16>(y).enumerate() {
        let (n, j, p) = (g / 8, g / 2 % 4, g % 2);
        for l in 0..16 {
            let low = q[32 * n + 16 * p + l] >> (2 * j) & 3;
            let high = hm[16 * p + l] >> (4 * n + j) & 1;
            y[l] = a[g] * (i32::from(low | high << 2) - 4) as f32;
        }
    }
}
