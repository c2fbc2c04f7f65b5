//! Tensor types: one row each of a table, with sizes and decoders to `f32`.
//!
//! Adding a type is one block function in a file under `ggml/`, one row of [`TABLE`] and golden
//! blocks in `tests/data/blocks.tsv`. A block function is the specification of its type, written so
//! that the compiler vectorises it; the code-book types have a second, faster one after it.
//!
//! All arithmetic is IEEE binary32 in the order the block drawings give, rounded to nearest even,
//! without fused multiply-add, so every result equals ggml's `dequantize_row_*` bit for bit (NaNs
//! may differ in sign and payload).

// The loops run over lanes, as the drawings do.
#![allow(clippy::needless_range_loop)]

pub mod isa;

mod float;
mod fp4;
mod grids;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod plain;
mod q1_0;
mod q2_0;
mod q2_k;
mod q3_k;
mod q4;
mod q4_k;
mod q5;
mod q5_k;
mod q6_k;
mod q8;
mod tq;

use std::sync::atomic::{Ordering, compiler_fence};

use isa::{Isa, Portable};

/// Decodes whole little-endian blocks: `dst.len() / block_len` of them.
type Decoder = unsafe fn(src: &[u8], dst: &mut [f32]);

/// A tensor type: how its elements are stored, and how they become `f32`.
#[derive(Debug)]
pub struct Type {
    /// The number that stands for the type in a file.
    pub id: u32,
    /// The upper-case name, such as `Q4_K`.
    pub name: &'static str,
    /// Elements in a block.
    pub block_len: u32,
    /// Bytes in a block.
    pub block_bytes: u32,
    /// Offset and width of the block's multi-byte fields, where tools agree on a big-endian form.
    fields: Option<&'static [(usize, usize)]>,
    /// By [`Isa`].
    decoders: [Decoder; 4],
}

/// A block function as whole-slice decoders, one a level.
macro_rules! decoders {
    ($bytes:literal, $len:literal, $spec:path, $fast:path) => {{
        fn scalar(src: &[u8], dst: &mut [f32]) {
            for (b, y) in blocks::<$bytes, $len>(src, dst) {
                $spec(Portable, b, y);
            }
        }
        fn portable(src: &[u8], dst: &mut [f32]) {
            for (b, y) in blocks::<$bytes, $len>(src, dst) {
                $fast(Portable, b, y);
            }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,f16c,bmi1,bmi2")]
        fn avx2(src: &[u8], dst: &mut [f32]) {
            let s = isa::Avx2::new();
            for (b, y) in blocks::<$bytes, $len>(src, dst) {
                $fast(s, b, y);
            }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512(src: &[u8], dst: &mut [f32]) {
            let s = isa::Avx512::new();
            for (b, y) in blocks::<$bytes, $len>(src, dst) {
                $fast(s, b, y);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        use {portable as avx2, portable as avx512};
        [scalar, portable, avx2, avx512]
    }};
}

/// One row of [`TABLE`]. The block function's own types must agree with the sizes.
macro_rules! row {
    ($id:literal, $name:literal, $len:literal, $bytes:literal, $fields:expr, $file:ident::$block:ident) => {
        row!($id, $name, $len, $bytes, $fields, $file::$block, $file::$block)
    };
    ($id:literal, $name:literal, $len:literal, $bytes:literal, $fields:expr, $spec:path, $fast:path) => {
        Type {
            id: $id,
            name: $name,
            block_len: $len,
            block_bytes: $bytes,
            fields: $fields,
            decoders: decoders!($bytes, $len, $spec, $fast),
        }
    };
}

/// Fields of a block that begins with one half.
const HALF: Option<&[(usize, usize)]> = Some(&[(0, 2)]);
/// A block without multi-byte fields.
const BYTES: Option<&[(usize, usize)]> = Some(&[]);

/// Every type with a defined layout, in id order.
#[rustfmt::skip]
pub static TABLE: [Type; 35] = [
    row!( 0, "F32",       1,   4, Some(&[(0, 4)]), plain::f32),
    row!( 1, "F16",       1,   2, HALF, plain::f16),
    row!( 2, "Q4_0",     32,  18, HALF, q4::q4_0),
    row!( 3, "Q4_1",     32,  20, None, q4::q4_1),
    row!( 6, "Q5_0",     32,  22, None, q5::q5_0),
    row!( 7, "Q5_1",     32,  24, None, q5::q5_1),
    row!( 8, "Q8_0",     32,  34, HALF, q8::q8_0),
    row!( 9, "Q8_1",     32,  36, None, q8::q8_1),
    row!(10, "Q2_K",    256,  84, None, q2_k::q2_k),
    row!(11, "Q3_K",    256, 110, None, q3_k::q3_k),
    row!(12, "Q4_K",    256, 144, Some(&[(0, 2), (2, 2)]), q4_k::q4_k),
    row!(13, "Q5_K",    256, 176, None, q5_k::q5_k),
    row!(14, "Q6_K",    256, 210, Some(&[(208, 2)]), q6_k::q6_k),
    row!(15, "Q8_K",    256, 292, None, q8::q8_k),
    row!(16, "IQ2_XXS", 256,  66, None, iq2::iq2_xxs, iq2::iq2_xxs_fast),
    row!(17, "IQ2_XS",  256,  74, None, iq2::iq2_xs, iq2::iq2_xs_fast),
    row!(18, "IQ3_XXS", 256,  98, None, iq3::iq3_xxs, iq3::iq3_xxs_fast),
    row!(19, "IQ1_S",   256,  50, None, iq1::iq1_s, iq1::iq1_s_fast),
    row!(20, "IQ4_NL",   32,  18, None, iq4::iq4_nl),
    row!(21, "IQ3_S",   256, 110, None, iq3::iq3_s, iq3::iq3_s_fast),
    row!(22, "IQ2_S",   256,  82, None, iq2::iq2_s, iq2::iq2_s_fast),
    row!(23, "IQ4_XS",  256, 136, None, iq4::iq4_xs),
    row!(24, "I8",        1,   1, BYTES, plain::i8),
    row!(25, "I16",       1,   2, HALF, plain::i16),
    row!(26, "I32",       1,   4, Some(&[(0, 4)]), plain::i32),
    row!(27, "I64",       1,   8, Some(&[(0, 8)]), plain::i64),
    row!(28, "F64",       1,   8, Some(&[(0, 8)]), plain::f64),
    row!(29, "IQ1_M",   256,  56, None, iq1::iq1_m, iq1::iq1_m_fast),
    row!(30, "BF16",      1,   2, HALF, plain::bf16),
    row!(34, "TQ1_0",   256,  54, None, tq::tq1_0),
    row!(35, "TQ2_0",   256,  66, Some(&[(64, 2)]), tq::tq2_0),
    row!(39, "MXFP4",    32,  17, BYTES, fp4::mxfp4),
    row!(40, "NVFP4",    64,  36, BYTES, fp4::nvfp4),
    row!(41, "Q1_0",    128,  18, HALF, q1_0::q1_0),
    row!(42, "Q2_0",     64,  18, None, q2_0::q2_0),
];

/// Where in [`TABLE`] each id is; past its end where there is none.
static INDEX: [u8; 43] = {
    let mut index = [u8::MAX; 43];
    let mut i = 0;
    while i < TABLE.len() {
        index[TABLE[i].id as usize] = i as u8;
        i += 1;
    }
    index
};

/// The type of an id, if this build knows its layout.
pub fn by_id(id: u32) -> Option<&'static Type> {
    let row = INDEX.get(usize::try_from(id).ok()?)?;
    TABLE.get(usize::from(*row))
}

/// The name of an id that ggml has given up: such a tensor must be quantized anew.
pub fn retired(id: u32) -> Option<&'static str> {
    Some(match id {
        4 => "Q4_2",
        5 => "Q4_3",
        31 => "Q4_0_4_4",
        32 => "Q4_0_4_8",
        33 => "Q4_0_8_8",
        36 => "IQ4_NL_4_4",
        37 => "IQ4_NL_4_8",
        38 => "IQ4_NL_8_8",
        _ => return None,
    })
}

impl Type {
    /// Whether the type has a defined big-endian block form: those gguf-py converts, the plain
    /// integers and F64.
    pub fn has_big_endian(&self) -> bool {
        self.fields.is_some()
    }

    /// Turns whole big-endian blocks into little-endian ones in place. Leaves a type without a
    /// big-endian form alone.
    pub fn swap_bytes(&self, blocks: &mut [u8]) {
        for block in blocks.chunks_exact_mut(self.block_bytes as usize) {
            for &(at, width) in self.fields.unwrap_or_default() {
                block[at..at + width].reverse();
            }
        }
    }

    /// Decodes whole little-endian blocks: `src` of n * `block_bytes` bytes into `dst` of
    /// n * `block_len` elements, by the fastest decoder of this CPU.
    ///
    /// The caller owes the lengths (checked in debug builds); otherwise, the blocks that are whole
    /// on both sides are decoded and the rest of `dst` keeps its values.
    #[inline]
    pub fn decode(&self, src: &[u8], dst: &mut [f32]) {
        self.decode_with(Isa::current(), src, dst);
    }

    /// As [`Type::decode`], by the scalar decoder: the specification.
    pub fn decode_scalar(&self, src: &[u8], dst: &mut [f32]) {
        self.decode_with(Isa::Scalar, src, dst);
    }

    /// As [`Type::decode`], by the decoder of one level, or the CPU's best if it lacks that one.
    pub fn decode_with(&self, isa: Isa, src: &[u8], dst: &mut [f32]) {
        debug_assert_eq!(src.len() % self.block_bytes as usize, 0);
        debug_assert_eq!(
            src.len() / self.block_bytes as usize * self.block_len as usize,
            dst.len()
        );
        let decoder = self.decoders[isa.min(Isa::best()) as usize];
        // SAFETY: a decoder is unsafe only in that the CPU must have its level's features, and this
        // CPU has those of its best level and below. Lengths are the decoder's own affair.
        unsafe { decoder(src, dst) }
    }
}

/// The blocks of `src` with the elements of `dst` they stand for.
#[inline(always)]
fn blocks<'a, const B: usize, const L: usize>(
    src: &'a [u8],
    dst: &'a mut [f32],
) -> impl Iterator<Item = (&'a [u8; B], &'a mut [f32; L])> {
    src.as_chunks().0.iter().zip(groups(dst))
}

/// Groups of `L` lanes, to be filled one after another.
///
/// The fence costs no instruction. Without it, the compiler unrolls the loop over the lanes of a
/// group and then vectorises the loop over the groups, with a gather for every byte.
#[inline(always)]
fn groups<T, const L: usize>(y: &mut [T]) -> impl Iterator<Item = &mut [T; L]> {
    y.as_chunks_mut().0.iter_mut().inspect(|_| {
        if L > 1 {
            compiler_fence(Ordering::SeqCst);
        }
    })
}

/// `codes` times the scale of their group of `L`: how most types of 256 elements end.
#[inline(always)]
fn scale<const L: usize, const G: usize>(scales: &[f32; G], codes: &[i8; 256], y: &mut [f32; 256]) {
    let codes = codes.as_chunks::<L>().0;
    for (g, y) in groups::<f32, L>(y).enumerate() {
        for j in 0..L {
            y[j] = scales[g] * f32::from(codes[g][j]);
        }
    }
}

/// As [`scale`], minus the minimum of the group.
#[inline(always)]
fn scale_min<const L: usize, const G: usize>(
    scales: &[f32; G],
    minima: &[f32; G],
    codes: &[u8; 256],
    y: &mut [f32; 256],
) {
    let codes = codes.as_chunks::<L>().0;
    for (g, y) in groups::<f32, L>(y).enumerate() {
        for j in 0..L {
            y[j] = scales[g] * f32::from(codes[g][j]) - minima[g];
        }
    }
}

/// `N` bytes of a block from `at`. Block functions give constants, so the check goes at compile time.
#[inline(always)]
fn bytes<const N: usize>(b: &[u8], at: usize) -> &[u8; N] {
    b[at..].first_chunk().expect("the field is within the block")
}

#[inline(always)]
fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*bytes(b, at))
}

#[inline(always)]
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes(b, at))
}
