//! What this CPU can do: the levels a decoder is compiled for, and the few operations a loop needs by name.
//!
//! A decoder is a plain loop, compiled once a level, so that the compiler's vectoriser sees the
//! level's registers. [`Simd`] holds the two operations it cannot express as a plain loop. An
//! implementation of it is a token: it can be made only where its CPU features are enabled.

use std::sync::OnceLock;

use super::{float, grids};

/// The levels a decoder is compiled for, from the specification to the widest.
///
/// The environment variable `GGUF_FS_ISA` (`scalar`, `portable`, `avx2` or `avx512`) forces a lower
/// level than the CPU's best; tests and measurements use it. A higher one than the CPU has is lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The specification, in the compilation target's own instructions.
    Scalar,
    /// The fast loops in the compilation target's own instructions (SSE2 on x86-64, NEON on AArch64).
    Portable,
    /// x86-64 with AVX2, F16C and BMI.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL, on top of the former.
    Avx512,
}

impl Isa {
    /// Every level, lowest first.
    pub const ALL: [Isa; 4] = [Isa::Scalar, Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// The level's name, as `GGUF_FS_ISA` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// The highest level of this CPU.
    pub fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(detect)
    }

    /// The level in use: the best one, or what `GGUF_FS_ISA` lowers it to.
    pub fn current() -> Isa {
        static CURRENT: OnceLock<Isa> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            let Some(name) = std::env::var_os("GGUF_FS_ISA") else { return Isa::best() };
            match Isa::ALL.into_iter().find(|isa| name == isa.name()) {
                Some(isa) => isa.min(Isa::best()),
                None => {
                    log::warn!("GGUF_FS_ISA: no such level {name:?}, using {}", Isa::best().name());
                    Isa::best()
                }
            }
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    use std::arch::is_x86_feature_detected as has;
    if !(has!("avx2") && has!("f16c") && has!("bmi1") && has!("bmi2")) {
        Isa::Portable
    } else if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
        Isa::Avx512
    } else {
        Isa::Avx2
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Isa {
    Isa::Portable
}

/// The operations of a level that plain loops do not compile to.
pub(super) trait Simd: Copy {
    /// An IEEE half, widened: a scale of a block.
    fn half(self, bits: u16) -> f32;
    /// An IEEE half, widened: one of a row of them, for the vectoriser to take together.
    fn half_lane(self, bits: u16) -> f32;
    /// `table[code]` of sixteen codes, each at most 15.
    fn lookup(self, table: &[i8; 16], codes: [u8; 16]) -> [i8; 16];
    /// `values`, none of them -128, negated where the lane's bit of `signs` is set.
    fn negate(self, values: &[i8; 64], signs: u64) -> [i8; 64];
}

/// The compilation target's own instructions.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Simd for Portable {
    #[inline(always)]
    fn half(self, bits: u16) -> f32 {
        float::half(bits)
    }

    #[inline(always)]
    fn half_lane(self, bits: u16) -> f32 {
        float::half(bits)
    }

    #[cfg(not(target_arch = "aarch64"))]
    #[inline(always)]
    fn lookup(self, table: &[i8; 16], codes: [u8; 16]) -> [i8; 16] {
        codes.map(|code| table[usize::from(code & 15)])
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn lookup(self, table: &[i8; 16], codes: [u8; 16]) -> [i8; 16] {
        use std::arch::aarch64::{int8x16_t, uint8x16_t, vqtbl1q_s8};
        use std::mem::transmute;
        // SAFETY: every AArch64 target of Linux has NEON; arrays and vectors of one size have no
        // invalid bits.
        unsafe {
            let table = transmute::<[i8; 16], int8x16_t>(*table);
            let codes = transmute::<[u8; 16], uint8x16_t>(codes);
            transmute::<int8x16_t, [i8; 16]>(vqtbl1q_s8(table, codes))
        }
    }

    #[inline(always)]
    fn negate(self, values: &[i8; 64], signs: u64) -> [i8; 64] {
        let masks = signs.to_le_bytes().map(|signs| grids::SIGN_MASKS[usize::from(signs)]);
        let masks = masks.as_flattened();
        let mut lanes = [0; 64];
        for j in 0..64 {
            lanes[j] = (values[j] ^ masks[j]) - masks[j];
        }
        lanes
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::mem::transmute;

    use super::{Portable, Simd};

    /// Proof of AVX2 and F16C.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(());

    /// Proof of AVX-512 F, BW, DQ and VL.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(());

    impl Avx2 {
        #[target_feature(enable = "avx2,f16c,bmi1,bmi2")]
        #[inline]
        pub(in super::super) fn new() -> Self {
            Self(())
        }
    }

    impl Avx512 {
        #[target_feature(enable = "avx2,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
        #[inline]
        pub(in super::super) fn new() -> Self {
            Self(())
        }
    }

    impl Simd for Avx2 {
        #[inline(always)]
        fn half(self, bits: u16) -> f32 {
            // The compiler's own way is to load the half into a register whose upper part it keeps, which
            // makes every block wait for the one before it.
            let value: f32;
            // SAFETY: `self` proves F16C; the instructions touch these two registers only.
            unsafe {
                asm!(
                    "vmovd {value}, {bits:e}",
                    "vcvtph2ps {value}, {value}",
                    bits = in(reg) u32::from(bits),
                    value = lateout(xmm_reg) value,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            value
        }

        #[inline(always)]
        fn half_lane(self, bits: u16) -> f32 {
            // SAFETY: `self` proves F16C.
            unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
        }

        #[inline(always)]
        fn lookup(self, table: &[i8; 16], codes: [u8; 16]) -> [i8; 16] {
            // SAFETY: `self` proves SSSE3; arrays and vectors of one size have no invalid bits.
            unsafe {
                let table = transmute::<[i8; 16], __m128i>(*table);
                let codes = transmute::<[u8; 16], __m128i>(codes);
                transmute::<__m128i, [i8; 16]>(_mm_shuffle_epi8(table, codes))
            }
        }

        #[inline(always)]
        fn negate(self, values: &[i8; 64], signs: u64) -> [i8; 64] {
            Portable.negate(values, signs)
        }
    }

    impl Simd for Avx512 {
        #[inline(always)]
        fn half(self, bits: u16) -> f32 {
            Avx2(()).half(bits)
        }

        #[inline(always)]
        fn half_lane(self, bits: u16) -> f32 {
            Avx2(()).half_lane(bits)
        }

        #[inline(always)]
        fn lookup(self, table: &[i8; 16], codes: [u8; 16]) -> [i8; 16] {
            Avx2(()).lookup(table, codes)
        }

        #[inline(always)]
        fn negate(self, values: &[i8; 64], signs: u64) -> [i8; 64] {
            // SAFETY: `self` proves AVX-512 BW; arrays and vectors of one size have no invalid bits.
            unsafe {
                let values = transmute::<[i8; 64], __m512i>(*values);
                let negated = _mm512_mask_sub_epi8(values, signs, _mm512_setzero_si512(), values);
                transmute::<__m512i, [i8; 64]>(negated)
            }
        }
    }
}
