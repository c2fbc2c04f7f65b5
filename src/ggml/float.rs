//! The small floats that blocks keep their scales in, widened exactly to `f32`.

/// An IEEE half: subnormals kept, a NaN made quiet as the hardware's conversion does.
#[inline(always)]
pub(super) fn half(bits: u16) -> f32 {
    const MIN_NORMAL: u32 = 113 << 23; // 2^-14
    let sign = u32::from(bits & 0x8000) << 16;
    let rest = u32::from(bits & 0x7fff) << 13;
    let normal = rest + ((127 - 15) << 23);
    // A subnormal's mantissa, placed under 2^-14 and freed of it, has the right exponent.
    let subnormal = (f32::from_bits(rest + MIN_NORMAL) - f32::from_bits(MIN_NORMAL)).to_bits();
    let nan_quiet = if rest > 31 << 23 { 1 << 22 } else { 0 };
    let special = rest | 0x7f80_0000 | nan_quiet;
    let magnitude = if rest < 1 << 23 {
        subnormal
    } else if rest < 31 << 23 {
        normal
    } else {
        special
    };
    f32::from_bits(sign | magnitude)
}

/// Half of an E8M0 scale: 2^(e-128), whatever `e` is; 255 is no NaN (MXFP4).
#[inline(always)]
pub(super) fn e8m0_half(e: u8) -> f32 {
    let e = u32::from(e);
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 })
}

/// Half of an unsigned E4M3 scale, its top bit ignored, except that the byte 0x7f is 0 (NVFP4).
#[inline(always)]
pub(super) fn ue4m3_half(x: u8) -> f32 {
    UE4M3_HALF[usize::from(x)]
}

static UE4M3_HALF: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut x = 0;
    while x < 256 {
        let (exponent, mantissa) = (x >> 3 & 15, (x & 7) as f32);
        values[x] = if x == 0x7f {
            0.0
        } else if exponent == 0 {
            mantissa / 1024.0
        } else {
            // 2^(exponent - 8)
            (1.0 + mantissa / 8.0) * f32::from_bits((exponent as u32 + 119) << 23)
        };
        x += 1;
    }
    values
};
