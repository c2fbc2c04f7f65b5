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
use super::{bytes, groups, scale, u16_at};

#[inline(always)]
pub(super) fn q6_k(s: impl Simd, b: &[u8; 210], y: &mut [f32; 256]) {
    let ql: &[u8; 128] = bytes(b, 0);
    let qh: &[u8; 64] = bytes(b, 128);
    let sc: &[u8; 16] = bytes(b, 192);
    let d = s.half(u16_at(b, 208));
    let mut codes = [0; 256];
    for (n, codes) in groups::<i8, 128>(&mut codes).enumerate() {
        for l in 0..32 {
            let (a, b, high) = (ql[64 * n + l], ql[64 * n + 32 + l], qh[32 * n + l]);
            codes[l] = (a & 15 | (high & 3) << 4) as i8 - 32;
            codes[32 + l] = (b & 15 | (high >> 2 & 3) << 4) as i8 - 32;
            codes[64 + l] = (a >> 4 | (high >> 4 & 3) << 4) as i8 - 32;
            codes[96 + l] = (b >> 4 | high >> 6 << 4) as i8 - 32;
        }
    }
    scale::<16, 16>(&sc.map(|sc| d * f32::from(sc as i8)), &codes, y);
}
