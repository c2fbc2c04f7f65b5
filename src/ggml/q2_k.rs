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
use super::{bytes, groups, scale_min, u16_at};

#[inline(always)]
pub(super) fn q2_k(s: impl Simd, b: &[u8; 84], y: &mut [f32; 256]) {
    let scales: &[u8; 16] = bytes(b, 0);
    let q: &[u8; 64] = bytes(b, 16);
    let d = s.half(u16_at(b, 80));
    let dmin = s.half(u16_at(b, 82));
    let mut codes = [0; 256];
    for (n, codes) in groups::<u8, 128>(&mut codes).enumerate() {
        for l in 0..32 {
            let q = q[32 * n + l];
            codes[l] = q & 3;
            codes[32 + l] = q >> 2 & 3;
            codes[64 + l] = q >> 4 & 3;
            codes[96 + l] = q >> 6;
        }
    }
    let a = scales.map(|s| d * f32::from(s & 15));
    let m = scales.map(|s| dmin * f32::from(s >> 4));
    scale_min::<16, 16>(&a, &m, &codes, y);
}
