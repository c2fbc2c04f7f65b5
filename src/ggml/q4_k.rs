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
use super::{bytes, groups, u16_at};

#[inline(always)]
pub(super) fn q4_k(s: impl Simd, b: &[u8; 144], y: &mut [f32; 256]) {
    let (a, m) = scales(s, bytes(b, 0));
    let q: &[u8; 128] = bytes(b, 16);
    for (c, y) in groups::<f32, 64>(y).enumerate() {
        for l in 0..32 {
            let q = q[32 * c + l];
            y[l] = a[2 * c] * f32::from(q & 15) - m[2 * c];
            y[32 + l] = a[2 * c + 1] * f32::from(q >> 4) - m[2 * c + 1];
        }
    }
}

/// The scales and minima of the 8 groups, as Q4_K and Q5_K pack them into their first 16 bytes.
#[inline(always)]
pub(super) fn scales(s: impl Simd, b: &[u8; 16]) -> ([f32; 8], [f32; 8]) {
    let d = s.half(u16_at(b, 0));
    let dmin = s.half(u16_at(b, 2));
    let s: &[u8; 12] = bytes(b, 4);
    let (mut a, mut m) = ([0.0; 8], [0.0; 8]);
    for g in 0..4 {
        a[g] = d * f32::from(s[g] & 63);
        m[g] = dmin * f32::from(s[g + 4] & 63);
        a[g + 4] = d * f32::from(s[g + 8] & 15 | s[g] >> 6 << 4);
        m[g + 4] = dmin * f32::from(s[g + 8] >> 4 | s[g + 4] >> 6 << 4);
    }
    (a, m)
}
