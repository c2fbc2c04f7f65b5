//! IQ2_XXS, IQ2_XS and IQ2_S: groups of 8 magnitudes from a code book, with a sign bit each.
//!
//! ```text
//! IQ2_XXS  0        2                                               66
//!          | d half | 8 words of 64 bits                             |
//! IQ2_XS   0        2                           66                  74
//!          | d half | q: 32 u16                 | sc: 8 bytes        |
//! IQ2_S    0        2             34            66           74     82
//!          | d half | q: 32 bytes | signs: 32   | qh: 8      | sc: 8 |
//!
//! Group 4w + l of 8 lanes (w < 8, l < 4):
//! IQ2_XXS  word w:  | 63..60: scale | 59..32: 4 sign codes, 7 bits each | 31..0: 4 rows, 8 bits each |
//! IQ2_XS   q:       | 15..9: sign code | 8..0: row |
//! IQ2_S    row = q | (qh[w] >> 2l & 3) << 8;  a full sign byte in signs
//! IQ2_XS, IQ2_S:  scale = nibble l / 2 of sc[w]
//!
//! value: ((d * (0.5 + scale)) * 0.25) * row[j], negated where the sign bit j is set
//! ```

use super::grids::{IQ2_S, IQ2_XS, IQ2_XXS, KSIGNS};
use super::isa::Simd;
use super::{bytes, groups, scale, u16_at, u32_at};

#[inline(always)]
pub(super) fn iq2_xxs(s: impl Simd, b: &[u8; 66], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    for (w, y) in groups::<f32, 32>(y).enumerate() {
        let rows: &[u8; 4] = bytes(b, 2 + 8 * w);
        let word = u32_at(b, 6 + 8 * w);
        let db = (d * (0.5 + (word >> 28) as f32)) * 0.25;
        for (l, y) in groups::<f32, 8>(y).enumerate() {
            let signs = KSIGNS[(word >> (7 * l) & 127) as usize];
            group(db, IQ2_XXS[usize::from(rows[l])], signs, y);
        }
    }
}

#[inline(always)]
pub(super) fn iq2_xs(s: impl Simd, b: &[u8; 74], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let sc: &[u8; 8] = bytes(b, 66);
    for (w, y) in groups::<f32, 32>(y).enumerate() {
        for (l, y) in groups::<f32, 8>(y).enumerate() {
            let q = usize::from(u16_at(b, 2 + 8 * w + 2 * l));
            group(db(d, sc[w], l), IQ2_XS[q & 511], KSIGNS[q >> 9], y);
        }
    }
}

#[inline(always)]
pub(super) fn iq2_s(s: impl Simd, b: &[u8; 82], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let q: &[u8; 32] = bytes(b, 2);
    let signs: &[u8; 32] = bytes(b, 34);
    let qh: &[u8; 8] = bytes(b, 66);
    let sc: &[u8; 8] = bytes(b, 74);
    for (w, y) in groups::<f32, 32>(y).enumerate() {
        for (l, y) in groups::<f32, 8>(y).enumerate() {
            let row = usize::from(q[4 * w + l]) | usize::from(qh[w] >> (2 * l) & 3) << 8;
            group(db(d, sc[w], l), IQ2_S[row], signs[4 * w + l], y);
        }
    }
}

#[inline(always)]
fn db(d: f32, sc: u8, l: usize) -> f32 {
    (d * (0.5 + f32::from(sc >> (4 * (l / 2)) & 15))) * 0.25
}

#[inline(always)]
fn group(db: f32, row: [i8; 8], signs: u8, y: &mut [f32; 8]) {
    for j in 0..8 {
        let sign = u32::from(signs >> j) << 31;
        y[j] = f32::from_bits((db * f32::from(row[j])).to_bits() ^ sign);
    }
}

// The fast forms first gather the rows and sign bytes of all 32 groups, then do the arithmetic in
// one loop. A magnitude takes its sign before it is scaled, which gives the same product.

#[inline(always)]
pub(super) fn iq2_xxs_fast(s: impl Simd, b: &[u8; 66], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let (mut rows, mut signs, mut scales) = ([0; 32], [0; 32], [0.0; 8]);
    for w in 0..8 {
        let word = u32_at(b, 6 + 8 * w);
        for l in 0..4 {
            rows[4 * w + l] = u16::from(b[2 + 8 * w + l]);
            signs[4 * w + l] = (word >> (7 * l)) as u8;
        }
        scales[w] = (d * (0.5 + (word >> 28) as f32)) * 0.25;
    }
    let rows = take(&IQ2_XXS, &rows);
    scale::<32, 8>(&scales, &signed(s, rows.as_flattened(), &even(signs)), y);
}

#[inline(always)]
pub(super) fn iq2_xs_fast(s: impl Simd, b: &[u8; 74], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let (mut rows, mut signs) = ([0; 32], [0; 32]);
    for i in 0..32 {
        let q = u16_at(b, 2 + 2 * i);
        rows[i] = q & 511;
        signs[i] = (q >> 9) as u8;
    }
    let rows = take(&IQ2_XS, &rows);
    scale::<16, 16>(&dbs(d, bytes(b, 66)), &signed(s, rows.as_flattened(), &even(signs)), y);
}

#[inline(always)]
pub(super) fn iq2_s_fast(s: impl Simd, b: &[u8; 82], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 0));
    let qh: &[u8; 8] = bytes(b, 66);
    let mut rows = [0; 32];
    for i in 0..32 {
        rows[i] = u16::from(b[2 + i]) | u16::from(qh[i / 4] >> (2 * (i % 4)) & 3) << 8;
    }
    let rows = take(&IQ2_S, &rows);
    scale::<16, 16>(&dbs(d, bytes(b, 74)), &signed(s, rows.as_flattened(), bytes(b, 34)), y);
}

#[inline(always)]
fn dbs(d: f32, sc: &[u8; 8]) -> [f32; 16] {
    let mut scales = [0; 16];
    for w in 0..8 {
        scales[2 * w] = sc[w] & 15;
        scales[2 * w + 1] = sc[w] >> 4;
    }
    scales.map(|s| (d * (0.5 + f32::from(s))) * 0.25)
}

/// The rows of a code book that `index` names.
#[inline(always)]
pub(super) fn take<const L: usize, const N: usize, const G: usize>(
    book: &[[i8; L]; N],
    index: &[u16; G],
) -> [[i8; L]; G] {
    let mut rows = [[0; L]; G];
    for (row, &i) in groups::<_, 1>(&mut rows).zip(index) {
        row[0] = book[usize::from(i) % N];
    }
    rows
}

/// Sign codes of 7 bits, above which anything may be, as sign bytes: what [`KSIGNS`] holds.
#[inline(always)]
pub(super) fn even(mut signs: [u8; 32]) -> [u8; 32] {
    for k in &mut signs {
        let parity = (*k << 1) ^ (*k << 5);
        let parity = parity ^ parity << 2;
        let parity = parity ^ parity << 1;
        *k = *k & 127 | parity & 128;
    }
    signs
}

/// The magnitudes of 32 groups with their signs.
#[inline(always)]
pub(super) fn signed(s: impl Simd, magnitudes: &[i8], signs: &[u8; 32]) -> [i8; 256] {
    let mut codes = [0; 256];
    let rows = magnitudes.as_chunks().0.iter().zip(signs.as_chunks().0);
    for (codes, (magnitudes, signs)) in groups::<_, 64>(&mut codes).zip(rows) {
        *codes = s.negate(magnitudes, u64::from_le_bytes(*signs));
    }
    codes
}
