//! Q4_0 and Q4_1: 32 elements of 4 bits under one scale; the latter adds a minimum.
//!
//! ```text
//! Q4_0   0        2                                   18
//!        | d half | q: 16 bytes                        |
//! Q4_1   0        2        4                          20
//!        | d half | m half | q: 16 bytes               |
//!
//! q[j]:  low nibble = lane j, high nibble = lane j + 16
//! Q4_0:  (nibble - 8) * d         Q4_1:  nibble * d + m
//! ```

use super::isa::Simd;
use super::{bytes, u16_at};

#[inline(always)]
pub(super) fn q4_0(s: impl Simd, b: &[u8; 18], y: &mut [f32; 32]) {
    let d = s.half(u16_at(b, 0));
    let codes = nibbles(bytes(b, 2));
    for j in 0..32 {
        y[j] = (i32::from(codes[j]) - 8) as f32 * d;
    }
}

#[inline(always)]
pub(super) fn q4_1(s: impl Simd, b: &[u8; 20], y: &mut [f32; 32]) {
    let d = s.half(u16_at(b, 0));
    let m = s.half(u16_at(b, 2));
    let codes = nibbles(bytes(b, 4));
    for j in 0..32 {
        y[j] = f32::from(codes[j]) * d + m;
    }
}

/// The low nibbles, then the high ones.
#[inline(always)]
pub(super) fn nibbles(q: &[u8; 16]) -> [u8; 32] {
    let mut codes = [0; 32];
    for j in 0..16 {
        codes[j] = q[j] & 15;
        codes[j + 16] = q[j] >> 4;
    }
    codes
}
