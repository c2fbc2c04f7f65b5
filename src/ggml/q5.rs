//! Q5_0 and Q5_1: 32 elements of 5 bits under one scale; the latter adds a minimum.
//!
//! ```text
//! Q5_0   0        2            6                      22
//!        | d half | h: u32     | q: 16 bytes           |
//! Q5_1   0        2        4            8             24
//!        | d half | m half | h: u32     | q: 16 bytes  |
//!
//! q[j]:  low nibble = lane j, high nibble = lane j + 16
//! h:     bit i = fifth bit of lane i
//! Q5_0:  (code - 16) * d          Q5_1:  code * d + m
//! ```

use super::isa::Simd;
use super::q4::nibbles;
use super::{bytes, u16_at, u32_at};

#[inline(always)]
pub(super) fn q5_0(s: impl Simd, b: &[u8; 22], y: &mut [f32; 32]) {
    let d = s.half(u16_at(b, 0));
    let codes = codes(u32_at(b, 2), bytes(b, 6));
    for j in 0..32 {
        y[j] = (codes[j] - 16) as f32 * d;
    }
}

#[inline(always)]
pub(super) fn q5_1(s: impl Simd, b: &[u8; 24], y: &mut [f32; 32]) {
    let d = s.half(u16_at(b, 0));
    let m = s.half(u16_at(b, 2));
    let codes = codes(u32_at(b, 4), bytes(b, 8));
    for j in 0..32 {
        y[j] = codes[j] as f32 * d + m;
    }
}

#[inline(always)]
fn codes(h: u32, q: &[u8; 16]) -> [i32; 32] {
    let low = nibbles(q);
    let mut codes = [0; 32];
    for j in 0..32 {
        codes[j] = i32::from(low[j]) | if h & 1 << j == 0 { 0 } else { 16 };
    }
    codes
}
