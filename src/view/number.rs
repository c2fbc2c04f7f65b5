//! Numbers as text: decimal integers, and the shortest decimals that read back as the same float.
//!
//! A float looks like one (`10000.0`, `-0.0`, `nan`, `inf`, `-inf`) and has an exponent below 1e-4
//! and from 1e16 on (`1e-5`, `1e16`), as Rust's `{:?}` prints it.

use std::fmt::{self, Write};

use crate::gguf::Endian;

/// A number type of the format.
pub trait Number: Copy {
    /// Bytes it takes in the file.
    const SIZE: usize;
    /// Takes it from `SIZE` bytes; zero if there are not that many.
    fn read(bytes: &[u8], endian: Endian) -> Self;
    /// Appends its text.
    fn write(self, out: &mut Vec<u8>);
    /// Length of its text, faster than writing it.
    fn width(self) -> u64;
    /// Whether its text is a number to JSON, which knows no infinities.
    fn is_finite(self) -> bool {
        true
    }
}

macro_rules! read {
    ($type:ty) => {
        const SIZE: usize = size_of::<$type>();

        #[inline]
        fn read(bytes: &[u8], endian: Endian) -> Self {
            let bytes = bytes.first_chunk().copied().unwrap_or_default();
            match endian {
                Endian::Little => <$type>::from_le_bytes(bytes),
                Endian::Big => <$type>::from_be_bytes(bytes),
            }
        }
    };
}

/// Integers, with the powers of ten that they reach. Comparing with each of them vectorises.
macro_rules! integer {
    ($($type:ty: $unsigned:ty, $($ten:literal)*;)*) => {$(
        impl Number for $type {
            read!($type);

            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(itoa::Buffer::new().format(self).as_bytes());
            }

            #[inline]
            #[allow(unused_comparisons)]
            fn width(self) -> u64 {
                let digits: $unsigned = 1 $(+ <$unsigned>::from(self.abs_diff(0) >= $ten))*;
                u64::from(digits) + u64::from(self < 0)
            }
        }
    )*};
}

integer! {
    u8: u8, 10 100;
    i8: u8, 10 100;
    u16: u16, 10 100 1000 10000;
    i16: u16, 10 100 1000 10000;
    u32: u32, 10 100 1000 10000 100000 1000000 10000000 100000000 1000000000;
    i32: u32, 10 100 1000 10000 100000 1000000 10000000 100000000 1000000000;
    u64: u64, 10 100 1000 10000 100000 1000000 10000000 100000000 1000000000 10000000000
        100000000000 1000000000000 10000000000000 100000000000000 1000000000000000
        10000000000000000 100000000000000000 1000000000000000000 10000000000000000000;
    i64: u64, 10 100 1000 10000 100000 1000000 10000000 100000000 1000000000 10000000000
        100000000000 1000000000000 10000000000000 100000000000000 1000000000000000
        10000000000000000 100000000000000000 1000000000000000000;
}

/// A bool of the file: any byte but 0 is true.
#[derive(Clone, Copy, Debug)]
pub struct Bool(pub bool);

impl Number for Bool {
    const SIZE: usize = 1;

    #[inline]
    fn read(bytes: &[u8], _: Endian) -> Self {
        Bool(bytes.first().is_some_and(|b| *b != 0))
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.0 { b"true" } else { b"false" });
    }

    #[inline]
    fn width(self) -> u64 {
        5 - u64::from(self.0)
    }
}

/// Floats, with the bound up to which every integer is exact: those are most of the scores of a
/// vocabulary, and are written several times faster as integers.
macro_rules! float {
    ($($type:ty: $exact:literal;)*) => {$(
        impl Number for $type {
            read!($type);

            fn write(self, out: &mut Vec<u8>) {
                if self.is_nan() {
                    out.extend_from_slice(b"nan");
                } else if self.abs() < $exact && self.trunc() == self {
                    if self.is_sign_negative() {
                        out.push(b'-');
                    }
                    (self.abs() as u64).write(out);
                    out.extend_from_slice(b".0");
                } else {
                    let mut text = Text(out);
                    // Writing to memory cannot fail.
                    let _ = write!(text, "{self:?}");
                }
            }

            fn width(self) -> u64 {
                if self.is_nan() {
                    3
                } else if self.abs() < $exact && self.trunc() == self {
                    (self.abs() as u64).width() + 2 + u64::from(self.is_sign_negative())
                } else {
                    let mut width = Width(0);
                    // Counting cannot fail.
                    let _ = write!(width, "{self:?}");
                    width.0
                }
            }

            fn is_finite(self) -> bool {
                <$type>::is_finite(self)
            }
        }
    )*};
}

float! {
    f32: 16_777_216.0;
    f64: 9_007_199_254_740_992.0;
}

struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

struct Width(u64);

impl Write for Width {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<N: Number>(number: N) -> String {
        let mut out = Vec::new();
        number.write(&mut out);
        assert_eq!(number.width(), out.len() as u64, "{}", String::from_utf8_lossy(&out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_have_the_width_of_their_decimals() {
        for n in 0..=u16::MAX {
            assert_eq!(text(n), n.to_string());
            assert_eq!(text(n as i16), (n as i16).to_string());
            assert_eq!(text(n as u8), (n as u8).to_string());
            assert_eq!(text(n as i8), (n as i8).to_string());
        }
        for power in 0..20 {
            for n in [10u64.pow(power), 10u64.pow(power) - 1, u64::MAX, 1 << 63, (1 << 63) - 1] {
                assert_eq!(text(n), n.to_string());
                assert_eq!(text(n as i64), (n as i64).to_string());
                assert_eq!(text((n as i64).wrapping_neg()), (n as i64).wrapping_neg().to_string());
                assert_eq!(text(n as u32), (n as u32).to_string());
                assert_eq!(text(n as i32), (n as i32).to_string());
            }
        }
    }

    #[test]
    fn floats_are_the_shortest_that_read_back() {
        let table: [(f32, &str); 16] = [
            (10000.0, "10000.0"),
            (1e-5, "1e-5"),
            (1e-4, "0.0001"),
            (0.1, "0.1"),
            (-0.0, "-0.0"),
            (0.0, "0.0"),
            (f32::NAN, "nan"),
            (-f32::NAN, "nan"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
            (1e16, "1e16"),
            (-123456.0, "-123456.0"),
            (16_777_218.0, "16777218.0"),
            (f32::MAX, "3.4028235e38"),
            (f32::from_bits(1), "1e-45"),
            (1.0 / 3.0, "0.33333334"),
        ];
        for (float, expected) in table {
            assert_eq!(text(float), expected);
        }
        assert_eq!(text(0.1f64), "0.1");
        assert_eq!(text(5e-324f64), "5e-324");
        assert_eq!(text(9_007_199_254_740_993.0f64), "9007199254740992.0");
        assert_eq!(text(1e15f64), "1000000000000000.0");
    }

    #[test]
    fn any_float_reads_back_to_its_bits() {
        let mut bits = 0x2545_F491_4F6C_DD1Du64;
        for _ in 0..20_000 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            let (wide, narrow) = (f64::from_bits(bits), f32::from_bits(bits as u32));
            if !wide.is_nan() {
                assert_eq!(text(wide).parse::<f64>().unwrap().to_bits(), wide.to_bits());
                assert_eq!(text(wide).trim_start_matches('-'), format!("{:?}", wide.abs()));
            }
            if !narrow.is_nan() {
                assert_eq!(text(narrow).parse::<f32>().unwrap().to_bits(), narrow.to_bits());
                let whole = narrow.trunc();
                assert_eq!(text(whole), format!("{whole:?}"));
            }
        }
    }
}
