//! IQ1_S and IQ1_M: groups of 8 ternary elements from a code book, each shifted by an eighth up or down.
//!
//! ```text
//! IQ1_S  0        2             34                          50
//!        | d half | q: 32 bytes | h: 8 u16                   |
//! IQ1_M  0             32              48                   56
//!        | q: 32 bytes | h: 16 bytes   | sc: 4 u16           |
//!
//! Group 4w + l of 8 lanes (w < 8, l < 4): a row of the code book, low 8 bits of its index q[4w + l].
//!
//! IQ1_S  h[w]:   | 15: delta | 14..12: scale | 11..0: high 3 bits of the index, 3 bits a group |
//! IQ1_M  h:      nibble 4w + l = | 3: delta | 2..0: high 3 bits of the index |
//!        sc[i]:  | 15..12: nibble i of d, a half | 11..0: four scales of two groups each, 3 bits |
//!
//! value: (d * (2 * scale + 1)) * (row[j] + (delta ? -0.125 : 0.125))
//! ```

use super::grids::IQ1_S;
use super::iq2::{signed, take};
use super::isa::Simd;
use super::{bytes, groups, scale, u16_at};

#[inline(always)]
pub(super) fn iq1_s(s: impl Simd, b: &[u8; 50], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let q: &[u8; 32] = bytes(b, 2);
    for (w, y) in groups::<f32, 32>(y).enumerate() {
        let h = u16_at(b, 34 + 2 * w);
        let dl = d * f32::from(2 * (h >> 12 & 7) + 1);
        for (l, y) in groups::<f32, 8>(y).enumerate() {
            let row = usize::from(q[4 * w + l]) | usize::from(h >> (3 * l) & 7) << 8;
            group(dl, row, h >> 15 != 0, y);
        }
    }
}

#[inline(always)]
pub(super) fn iq1_m(s: impl Simd, b: &[u8; 56], y: &mut [f32; 256]) {
    let q: &[u8; 32] = bytes(b, 0);
    let h: &[u8; 16] = bytes(b, 32);
    let sc: [u16; 4] = std::array::from_fn(|i| u16_at(b, 48 + 2 * i));
    let d = s.half(sc[0] >> 12 | sc[1] >> 12 << 4 | sc[2] >> 12 << 8 | sc[3] >> 12 << 12);
    for (w, y) in groups::<f32, 32>(y).enumerate() {
        for (l, y) in groups::<f32, 8>(y).enumerate() {
            let scale = sc[w / 2] >> (6 * (w % 2) + 3 * (l / 2)) & 7;
            let nibble = h[2 * w + l / 2] >> (4 * (l % 2)) & 15;
            let row = usize::from(q[4 * w + l]) | usize::from(nibble & 7) << 8;
            group(d * f32::from(2 * scale + 1), row, nibble & 8 != 0, y);
        }
    }
}

#[inline(always)]
fn group(dl: f32, row: usize, down: bool, y: &mut [f32; 8]) {
    let delta = if down { -0.125 } else { 0.125 };
    for j in 0..8 {
        y[j] = dl * (f32::from(IQ1_S[row][j]) + delta);
    }
}

// The fast forms go the way of IQ2's, with the shifts in place of the signs.

#[inline(always)]
pub(super) fn iq1_s_fast(s: impl Simd, b: &[u8; 50], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let (mut rows, mut down, mut scales) = ([0; 32], [0; 32], [0; 8]);
    for w in 0..8 {
        let h = u16_at(b, 34 + 2 * w);
        for l in 0..4 {
            rows[4 * w + l] = u16::from(b[2 + 4 * w + l]) | (h >> (3 * l) & 7) << 8;
            down[4 * w + l] = all_if(h >> 15 != 0);
        }
        scales[w] = 2 * (h >> 12 & 7) + 1;
    }
    let scales = scales.map(|scale| d * f32::from(scale) * 0.125);
    scale::<32, 8>(&scales, &eighths(s, &take(&IQ1_S, &rows), &down), y);
}

#[inline(always)]
pub(super) fn iq1_m_fast(s: impl Simd, b: &[u8; 56], y: &mut [f32; 256]) {
    let h: &[u8; 16] = bytes(b, 32);
    let sc: [u16; 4] = std::array::from_fn(|i| u16_at(b, 48 + 2 * i));
    let d = s.half(sc[0] >> 12 | sc[1] >> 12 << 4 | sc[2] >> 12 << 8 | sc[3] >> 12 << 12);
    let (mut rows, mut down, mut scales) = ([0; 32], [0; 32], [0; 16]);
    for i in 0..16 {
        rows[2 * i] = u16::from(b[2 * i]) | u16::from(h[i] & 7) << 8;
        rows[2 * i + 1] = u16::from(b[2 * i + 1]) | u16::from(h[i] >> 4 & 7) << 8;
        down[2 * i] = all_if(h[i] & 8 != 0);
        down[2 * i + 1] = all_if(h[i] & 128 != 0);
        scales[i] = 2 * (sc[i / 4] >> (3 * (i % 4)) & 7) + 1;
    }
    let scales = scales.map(|scale| d * f32::from(scale) * 0.125);
    scale::<16, 16>(&scales, &eighths(s, &take(&IQ1_S, &rows), &down), y);
}

/// A sign byte of eight equal signs.
#[inline(always)]
fn all_if(negative: bool) -> u8 {
    if negative { 255 } else { 0 }
}

/// Rows with their shifts, times 8. Their scale then is an eighth, which is exact, for a half has
/// no smaller value than 2^-24.
#[inline(always)]
fn eighths(s: impl Simd, rows: &[[i8; 8]; 32], down: &[u8; 32]) -> [i8; 256] {
    let rows = rows.as_flattened();
    let mut codes = signed(s, &[1; 256], down);
    for j in 0..256 {
        codes[j] += 8 * rows[j];
    }
    codes
}
