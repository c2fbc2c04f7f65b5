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
use super::{bytes, groups, q4_k, scale_min};

#[inline(always)]
pub(super) fn q5_k(s: impl Simd, b: &[u8; 176], y: &mut [f32; 256]) {
    let (a, m) = q4_k::scales(s, bytes(b, 0));
    let h: &[u8; 32] = bytes(b, 16);
    let q: &[u8; 128] = bytes(b, 48);
    let mut codes = [0; 256];
    for (c, codes) in groups::<u8, 64>(&mut codes).enumerate() {
        for l in 0..32 {
            let (q, h) = (q[32 * c + l], h[l] >> (2 * c));
            codes[l] = q & 15 | (h & 1) << 4;
            codes[32 + l] = q >> 4 | (h >> 1 & 1) << 4;
        }
    }
    scale_min::<32, 8>(&a, &m, &codes, y);
}
