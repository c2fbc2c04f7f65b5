//! Q4_K: 256 elements of 4 bits, 8 groups of 32 with a 6-bit scale and a 6-bit minimum each.
//!
//! ```text
//! 0        2           4             16              144
//! | d half | dmin half | s: 12 bytes | q: 128 bytes   |
//!
//! lane 64c + l:       q[32c + l] & 15, group 2c          c < 4, l < 32
//! lane 64c + 32 + l:  q[32c + l] >> 4, group 2c + 1
//! value:              (d * scale) * code - dmin * min
//!
//! s, for g < 4:  s[g]     = high 2 bits of scale[g+4] | scale[g]
//!                s[g + 4] = high 2 bits of min[g+4]   | min[g]
//!                s[g + 8] = low 4 bits of min[g+4]    | low 4 bits of scale[g+4]
//! ```

use super::isa::Simd;
use super::{bytes, groups, scale_min, u16_at};

#[inline(always)]
pub(super) fn q4_k(s: impl Simd, b: &[u8; 144], y: &mut [f32; 256]) {
    let (a, m) = scales(s, bytes(b, 0));
    let q: &[u8; 128] = bytes(b, 16);
    let mut codes = [0; 256];
    for (c, codes) in groups::<u8, 64>(&mut codes).enumerate() {
        for l in 0..32 {
            codes[l] = q[32 * c + l] & 15;
            codes[32 + l] = q[32 * c + l] >> 4;
        }
    }
    scale_min::<32, 8>(&a, &m, &codes, y);
}

/// The scales and minima of the 8 groups, as Q4_K and Q5_K pack them into their first 16 bytes.
#[inline(always)]
pub(super) fn scales(s: impl Simd, b: &[u8; 16]) -> ([f32; 8], [f32; 8]) {
    let d = s.half(u16_at(b, 0));
    let dmin = s.half(u16_at(b, 2));
    let s: &[u8; 12] = bytes(b, 4);
    let (mut scales, mut minima) = ([0; 8], [0; 8]);
    for g in 0..4 {
        scales[g] = s[g] & 63;
        minima[g] = s[g + 4] & 63;
        scales[g + 4] = s[g + 8] & 15 | s[g] >> 6 << 4;
        minima[g + 4] = s[g + 8] >> 4 | s[g + 4] >> 6 << 4;
    }
    (scales.map(|s| d * f32::from(s)), minima.map(|m| dmin * f32::from(m)))
}
