//! IQ3_XXS and IQ3_S: groups of 8 magnitudes, two code book rows of 4, with a sign bit each.
//!
//! ```text
//! IQ3_XXS  0        2             66                               98
//!          | d half | q: 64 bytes | x: 8 u32                        |
//! IQ3_S    0        2             66           74          106    110
//!          | d half | q: 64 bytes | qh: 8      | signs: 32 | sc: 4   |
//!
//! Group 4w + l of 8 lanes (w < 8, l < 4): lanes 0-3 from row q[8w + 2l], lanes 4-7 from row q[8w + 2l + 1]
//! IQ3_XXS  x[w]:  | 31..28: scale | 27..0: 4 sign codes, 7 bits each |
//! IQ3_S    bit i of qh[w] = ninth bit of q[8w + i];  a full sign byte in signs;  scale = nibble w % 2 of sc[w / 2]
//!
//! IQ3_XXS  ((d * (0.5 + scale)) * 0.5) * row[j]     each negated where the sign bit j is set
//! IQ3_S    (d * (1 + 2 * scale)) * row[j]
//! ```

use super::grids::{IQ3_S, IQ3_XXS, KSIGNS};
use super::iq2::{even, signed, take};
use super::isa::Simd;
use super::{bytes, groups, scale, u16_at, u32_at};

#[inline(always)]
pub(super) fn iq3_xxs(s: impl Simd, b: &[u8; 98], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let q: &[u8; 64] = bytes(b, 2);
    for (w, y) in groups::<f32, 32>(y).enumerate() {
        let x = u32_at(b, 66 + 4 * w);
        let db = (d * (0.5 + (x >> 28) as f32)) * 0.5;
        for (l, y) in groups::<f32, 8>(y).enumerate() {
            let row = |i| IQ3_XXS[usize::from(q[8 * w + 2 * l + i])];
            group(db, [row(0), row(1)], KSIGNS[(x >> (7 * l) & 127) as usize], y);
        }
    }
}

#[inline(always)]
pub(super) fn iq3_s(s: impl Simd, b: &[u8; 110], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let q: &[u8; 64] = bytes(b, 2);
    let qh: &[u8; 8] = bytes(b, 66);
    let signs: &[u8; 32] = bytes(b, 74);
    let sc: &[u8; 4] = bytes(b, 106);
    for (w, y) in groups::<f32, 32>(y).enumerate() {
        let db = d * f32::from(1 + 2 * (sc[w / 2] >> (4 * (w % 2)) & 15));
        for (l, y) in groups::<f32, 8>(y).enumerate() {
            let row = |i| {
                let high = usize::from(qh[w] >> (2 * l + i) & 1) << 8;
                IQ3_S[usize::from(q[8 * w + 2 * l + i]) | high]
            };
            group(db, [row(0), row(1)], signs[4 * w + l], y);
        }
    }
}

#[inline(always)]
fn group(db: f32, rows: [[i8; 4]; 2], signs: u8, y: &mut [f32; 8]) {
    for j in 0..8 {
        let sign = u32::from(signs >> j) << 31;
        y[j] = f32::from_bits((db * f32::from(rows[j / 4][j % 4])).to_bits() ^ sign);
    }
}

// The fast forms go the way of IQ2's.

#[inline(always)]
pub(super) fn iq3_xxs_fast(s: impl Simd, b: &[u8; 98], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let q: &[u8; 64] = bytes(b, 2);
    let (mut signs, mut scales) = ([0; 32], [0.0; 8]);
    for w in 0..8 {
        let x = u32_at(b, 66 + 4 * w);
        for l in 0..4 {
            signs[4 * w + l] = (x >> (7 * l)) as u8;
        }
        scales[w] = (d * (0.5 + (x >> 28) as f32)) * 0.5;
    }
    let rows = take(&IQ3_XXS, &q.map(u16::from));
    scale::<32, 8>(&scales, &signed(s, rows.as_flattened(), &even(signs)), y);
}

#[inline(always)]
pub(super) fn iq3_s_fast(s: impl Simd, b: &[u8; 110], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let q: &[u8; 64] = bytes(b, 2);
    let qh: &[u8; 8] = bytes(b, 66);
    let sc: &[u8; 4] = bytes(b, 106);
    let mut rows = [0; 64];
    for i in 0..64 {
        rows[i] = u16::from(q[i]) | u16::from(qh[i / 8] >> (i % 8) & 1) << 8;
    }
    let rows = take(&IQ3_S, &rows);
    let scales: [f32; 8] =
        std::array::from_fn(|w| d * f32::from(1 + 2 * (sc[w / 2] >> (4 * (w % 2)) & 15)));
    scale::<32, 8>(&scales, &signed(s, rows.as_flattened(), bytes(b, 74)), y);
}
