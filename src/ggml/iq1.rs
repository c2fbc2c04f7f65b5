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
    let row = IQ1_S[row].to_le_bytes();
    for j in 0..8 {
        y[j] = dl * (f32::from(row[j] as i8) + delta);
    }
}

#[inline(always)]
pub(super) fn iq1_s_fast(s: impl Simd, b: &[u8; 50], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let q: &[u8; 32] = bytes(b, 2);
    let (mut codes, mut scales) = ([0; 256], [0.0; 8]);
    for (w, codes) in groups::<i8, 32>(&mut codes).enumerate() {
        let h = u16_at(b, 34 + 2 * w);
        scales[w] = d * f32::from(2 * (h >> 12 & 7) + 1) * 0.125;
        for (l, codes) in codes.as_chunks_mut().0.iter_mut().enumerate() {
            let row = usize::from(q[4 * w + l]) | usize::from(h >> (3 * l) & 7) << 8;
            *codes = eighths(row, h >> 15 != 0);
        }
    }
    scale::<32, 8>(&scales, &codes, y);
}

#[inline(always)]
pub(super) fn iq1_m_fast(s: impl Simd, b: &[u8; 56], y: &mut [f32; 256]) {
    let q: &[u8; 32] = bytes(b, 0);
    let h: &[u8; 16] = bytes(b, 32);
    let sc: [u16; 4] = std::array::from_fn(|i| u16_at(b, 48 + 2 * i));
    let d = s.half(sc[0] >> 12 | sc[1] >> 12 << 4 | sc[2] >> 12 << 8 | sc[3] >> 12 << 12);
    let mut codes = [0; 256];
    for (i, codes) in groups::<i8, 16>(&mut codes).enumerate() {
        for (l, codes) in codes.as_chunks_mut().0.iter_mut().enumerate() {
            let nibble = h[i] >> (4 * l) & 15;
            let row = usize::from(q[2 * i + l]) | usize::from(nibble & 7) << 8;
            *codes = eighths(row, nibble & 8 != 0);
        }
    }
    let scales =
        std::array::from_fn(|i| d * f32::from(2 * (sc[i / 4] >> (3 * (i % 4)) & 7) + 1) * 0.125);
    scale::<16, 16>(&scales, &codes, y);
}

/// A row with its shift, times 8. An eighth of a scale is exact, for a half has no smaller value
/// than 2^-24. In the sum each byte is kept between 64 and 192, so that none carries into the next.
#[inline(always)]
fn eighths(row: usize, down: bool) -> [i8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let row = IQ1_S_TIMES_8[row];
    let codes = if down { row - ONES } else { row + ONES };
    codes.to_le_bytes().map(|code| (code ^ 128) as i8)
}

/// The code book with each byte as `8 * entry + 128`.
static IQ1_S_TIMES_8: [u64; 2048] = {
    let mut rows = IQ1_S;
    let mut i = 0;
    while i < rows.len() {
        let mut bytes = rows[i].to_le_bytes();
        let mut lane = 0;
        while lane < 8 {
            bytes[lane] = (bytes[lane] as i8 * 8) as u8 ^ 128;
            lane += 1;
        }
        rows[i] = u64::from_le_bytes(bytes);
        i += 1;
    }
    rows
};
