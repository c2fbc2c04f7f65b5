//! Q2_K: 256 elements of 2 bits, 16 groups of 16 with a 4-bit scale and a 4-bit minimum each.
//!
//! ```text
//! 0              16             80       82          84
//! | sc: 16 bytes | q: 64 bytes  | d half | dmin half  |
//!
//! lane 128n + 32j + l:  code = q[32n + l] >> 2j & 3        n < 2, j < 4, l < 32
//! group of 16 lanes g:  A = d * (sc[g] & 15)   B = dmin * (sc[g] >> 4)
//! value:                A * code - B
//! ```

use super::isa::Simd;
use super::{bytes, groups, u16_at};

#[inline(always)]
pub(super) fn q2_k(s: impl Simd, b: &[u8; 84], y: &mut [f32; 256]) {
    let scales: &[u8; 16] = bytes(b, 0);
    let q: &[u8; 64] = bytes(b, 16);
    let d = s.half(u16_at(b, 80));
    let dmin = s.half(u16_at(b, 82));
    let mut a = [0.0; 16];
    let mut m = [0.0; 16];
    for g in 0..16 {
        a[g] = d * f32::from(scales[g] & 15);
        m[g] = dmin * f32::from(scales[g] >> 4);
    }
    for (g, y) in groups::<f32, 16>(y).enumerate() {
        let (n, j, p) = (g / 8, g / 2 % 4, g % 2);
        for l in 0..16 {
            let code = q[32 * n + 16 * p + l] >> (2 * j) & 3;
            y[l] = a[g] * f32::from(code) - m[g];
        }
    }
}
