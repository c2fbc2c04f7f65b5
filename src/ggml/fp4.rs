//! MXFP4 and NVFP4: 4-bit floats (E2M1) in groups with an 8-bit float scale.
//!
//! ```text
//! MXFP4  0         1                                       17
//!        | e: E8M0 | q: 16 bytes                            |     32 elements
//!        low nibble of q[j] = lane j, high nibble = lane j + 16
//! NVFP4  0            4                                    36
//!        | s: 4 UE4M3 | q: 32 bytes                         |     64 elements, 4 groups of 16
//!        low nibble of q[8k + j] = lane 16k + j, high nibble = lane 16k + 8 + j      k < 4, j < 8
//!
//! value: F[nibble] * scale / 2, where F is E2M1 doubled, so that it holds integers
//! ```

use super::isa::Simd;
use super::{bytes, float, groups};

const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

#[inline(always)]
pub(super) fn mxfp4(s: impl Simd, b: &[u8; 17], y: &mut [f32; 32]) {
    let d = float::e8m0_half(b[0]);
    let q: &[u8; 16] = bytes(b, 1);
    let low = s.lookup(&DOUBLED, q.map(|q| q & 15));
    let high = s.lookup(&DOUBLED, q.map(|q| q >> 4));
    for j in 0..16 {
        y[j] = f32::from(low[j]) * d;
        y[j + 16] = f32::from(high[j]) * d;
    }
}

#[inline(always)]
pub(super) fn nvfp4(s: impl Simd, b: &[u8; 36], y: &mut [f32; 64]) {
    for (k, y) in groups::<f32, 16>(y).enumerate() {
        let d = float::ue4m3_half(b[k]);
        let q: &[u8; 8] = bytes(b, 4 + 8 * k);
        let mut codes = [0; 16];
        for j in 0..8 {
            codes[j] = q[j] & 15;
            codes[j + 8] = q[j] >> 4;
        }
        let values = s.lookup(&DOUBLED, codes);
        for j in 0..16 {
            y[j] = f32::from(values[j]) * d;
        }
    }
}
