//! IQ4_NL and IQ4_XS: 4-bit codes into a table of 16 unevenly spaced values.
//!
//! ```text
//! IQ4_NL  0        2                                       18
//!         | d half | q: 16 bytes                            |     32 elements
//! IQ4_XS  0        2        4              8              136
//!         | d half | hi u16 | lo: 4 bytes  | q: 128 bytes   |     256 elements, 8 groups of 32
//!
//! q, 16 bytes a group:  low nibble of q[j] = lane j, high nibble = lane j + 16
//! IQ4_NL:  d * V[nibble]
//! IQ4_XS:  (d * (scale - 32)) * V[nibble],  scale of group w = nibble w % 2 of lo[w / 2] | (hi >> 2w & 3) << 4
//! ```

use super::isa::Simd;
use super::{bytes, groups, u16_at};

const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

#[inline(always)]
pub(super) fn iq4_nl(s: impl Simd, b: &[u8; 18], y: &mut [f32; 32]) {
    group(s, s.half(u16_at(b, 0)), bytes(b, 2), y);
}

#[inline(always)]
pub(super) fn iq4_xs(s: impl Simd, b: &[u8; 136], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let high = u16_at(b, 2);
    let low: &[u8; 4] = bytes(b, 4);
    for (w, y) in groups::<f32, 32>(y).enumerate() {
        let scale = low[w / 2] >> (4 * (w % 2)) & 15 | ((high >> (2 * w) & 3) << 4) as u8;
        group(s, d * (i32::from(scale) - 32) as f32, bytes(b, 8 + 16 * w), y);
    }
}

#[inline(always)]
fn group(s: impl Simd, d: f32, q: &[u8; 16], y: &mut [f32; 32]) {
    let low = s.lookup(&VALUES, q.map(|q| q & 15));
    let high = s.lookup(&VALUES, q.map(|q| q >> 4));
    for j in 0..16 {
        y[j] = d * f32::from(low[j]);
        y[j + 16] = d * f32::from(high[j]);
    }
}
