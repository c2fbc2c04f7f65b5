//! Q1_0: 128 signs of one scale.
//!
//! ```text
//! 0        2                                          18
//! | d half | q: 16 bytes, bit j % 8 of q[j / 8] = lane j |
//!
//! bit 1: d    bit 0: -d
//! ```

use super::isa::Simd;
use super::{bytes, groups, u16_at, u32_at};

#[inline(always)]
pub(super) fn q1_0(s: impl Simd, b: &[u8; 18], y: &mut [f32; 128]) {
    let d = s.half(u16_at(b, 0)).to_bits();
    for (w, y) in groups::<f32, 32>(y).enumerate() {
        let q = u32_at(bytes::<16>(b, 2), 4 * w);
        for j in 0..32 {
            let sign = if q & 1 << j == 0 { 1 << 31 } else { 0 };
            y[j] = f32::from_bits(d ^ sign);
        }
    }
}
