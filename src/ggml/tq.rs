//! TQ1_0 and TQ2_0: 256 ternary elements under one scale, in base 3 or in 2 bits each.
//!
//! ```text
//! TQ1_0  0             48           52    54
//!        | q: 48 bytes | h: 4 bytes | d half |
//! TQ2_0  0                          64    66
//!        | q: 64 bytes              | d half |
//!
//! TQ1_0  a byte holds five base-3 digits: digit n of x is (x * 3^n mod 256) * 3 >> 8
//!        lane 32n + m:        digit n of q[m]         n < 5, m < 32
//!        lane 160 + 16n + m:  digit n of q[32 + m]    n < 5, m < 16
//!        lane 240 + 4n + m:   digit n of h[m]         n < 4, m < 4
//! TQ2_0  lane 128n + 32j + m: q[32n + m] >> 2j & 3    n < 2, j < 4, m < 32
//!
//! value: (code - 1) * d
//! ```

use super::isa::Simd;
use super::{bytes, u16_at};

#[inline(always)]
pub(super) fn tq1_0(s: impl Simd, b: &[u8; 54], y: &mut [f32; 256]) {
    let d = s.half(u16_at(b, 52));
    digits::<32, 160>(d, bytes(b, 0), bytes_mut(y, 0));
    digits::<16, 80>(d, bytes(b, 32), bytes_mut(y, 160));
    digits::<4, 16>(d, bytes(b, 48), bytes_mut(y, 240));
}

/// `L / M` digits of `M` bytes.
#[inline(always)]
fn digits<const M: usize, const L: usize>(d: f32, x: &[u8; M], y: &mut [f32; L]) {
    let mut x = *x;
    for y in y.as_chunks_mut::<M>().0 {
        for m in 0..M {
            let digit = ((u16::from(x[m]) * 3) >> 8) as u8;
            y[m] = (i32::from(digit) - 1) as f32 * d;
            x[m] = x[m].wrapping_mul(3);
        }
    }
}

#[inline(always)]
fn bytes_mut<const N: usize>(y: &mut [f32; 256], at: usize) -> &mut [f32; N] {
    y[at..].first_chunk_mut().expect("the lanes are within the block")
}

#[inline(always)]
pub(super) fn tq2_0(s: impl Simd, b: &[u8; 66], y: &mut [f32; 256]) {
    let q: &[u8; 64] = bytes(b, 0);
    let d = s.half(u16_at(b, 64));
    for n in 0..2 {
        for j in 0..4 {
            for m in 0..32 {
                let code = q[32 * n + m] >> (2 * j) & 3;
                y[128 * n + 32 * j + m] = (i32::from(code) - 1) as f32 * d;
            }
        }
    }
}
