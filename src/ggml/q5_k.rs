//! Q5_K: 256 elements of 5 bits, 8 groups of 32 with a 6-bit scale and a 6-bit minimum each, packed as in Q4_K.
//!
//! ```text
//! 0        2           4             16            48              176
//! | d half | dmin half | s: 12 bytes | h: 32 bytes | q: 128 bytes   |
//!
//! lane 64c + l:       q[32c + l] & 15, fifth bit = bit 2c of h[l],     group 2c        c < 4, l < 32
//! lane 64c + 32 + l:  q[32c + l] >> 4, fifth bit = bit 2c + 1 of h[l], group 2c + 1
//! value:              (d * scale) * code - dmin * min
//! ```

use super::isa::Simd;
use super::{bytes, groups, q4_k};

#[inline(always)]
pub(super) fn q5_k(s: impl Simd, b: &[u8; 176], y: &mut [f32; 256]) {
    let (a, m) = q4_k::scales(s, bytes(b, 0));
    let h: &[u8; 32] = bytes(b, 16);
    let q: &[u8; 128] = bytes(b, 48);
    for (c, y) in groups::<f32, 64>(y).enumerate() {
        for l in 0..32 {
            let (q, h) = (q[32 * c + l], h[l] >> (2 * c));
            y[l] = a[2 * c] * f32::from(q & 15 | (h & 1) << 4) - m[2 * c];
            y[32 + l] = a[2 * c + 1] * f32::from(q >> 4 | (h >> 1 & 1) << 4) - m[2 * c + 1];
        }
    }
}
