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
use super::{bytes, groups, scale, u16_at};

#[inline(always)]
pub(super) fn q3_k(s: impl Simd, b: &[u8; 110], y: &mut [f32; 256]) {
    let hm: &[u8; 32] = bytes(b, 0);
    let q: &[u8; 64] = bytes(b, 32);
    let sc: &[u8; 12] = bytes(b, 96);
    let d = s.half(u16_at(b, 108));
    let mut scales = [0; 16];
    for i in 0..4 {
        let (a, b, high) = (sc[i], sc[4 + i], sc[8 + i]);
        scales[i] = (a & 15 | (high & 3) << 4) as i8 - 32;
        scales[4 + i] = (b & 15 | (high >> 2 & 3) << 4) as i8 - 32;
        scales[8 + i] = (a >> 4 | (high >> 4 & 3) << 4) as i8 - 32;
        scales[12 + i] = (b >> 4 | high >> 6 << 4) as i8 - 32;
    }
    let mut codes = [0; 256];
    for (n, codes) in groups::<i8, 128>(&mut codes).enumerate() {
        for l in 0..32 {
            let (q, h) = (q[32 * n + l], hm[l] >> (4 * n));
            codes[l] = (q & 3 | (h & 1) << 2) as i8 - 4;
            codes[32 + l] = (q >> 2 & 3 | (h >> 1 & 1) << 2) as i8 - 4;
            codes[64 + l] = (q >> 4 & 3 | (h >> 2 & 1) << 2) as i8 - 4;
            codes[96 + l] = (q >> 6 | (h >> 3 & 1) << 2) as i8 - 4;
        }
    }
    scale::<16, 16>(&scales.map(|s| d * f32::from(s)), &codes, y);
}
