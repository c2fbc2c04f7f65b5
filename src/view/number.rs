//! Numbers as text: decimal integers, and the shortest decimals that read back as the same float.
//!
//! A float looks like one (`10000.0`, `-0.0`, `nan`, `inf`, `-inf`) and has an exponent below 1e-4
//! and from 1e16 on (`1e-5`, `1e16`), as Rust's `{:?}` prints it.

use std::io::Write;

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
    fn width(self) -> u32;
    /// Whether its text is a number to JSON, which knows no infinities.
    fn is_finite(self) -> bool {
        true
    }

    /// Length of the texts of several numbers together.
    #[inline]
    fn widths(raw: &[u8], endian: Endian) -> u64 {
        let width = |bytes: &[u8]| Self::read(bytes, endian).width();
        if Self::SIZE == 1 {
            return byte_widths(raw, |byte| width(&[byte]) as u8);
        }
        // Sums of 32 bits vectorise, and those of so few do not overflow.
        let pieces = raw.chunks(Self::SIZE << 10);
        pieces.map(|piece| u64::from(piece.chunks_exact(Self::SIZE).map(width).sum::<u32>())).sum()
    }
}

/// Length of the texts of single bytes, each at most 6. Adding up in lanes of a byte is an order of
/// magnitude faster, and arrays of bytes and strings are the longest values there are.
#[inline]
pub fn byte_widths(raw: &[u8], width: impl Fn(u8) -> u8) -> u64 {
    let (groups, rest) = raw.as_chunks::<32>();
    let mut sum = rest.iter().map(|byte| u64::from(width(*byte))).sum();
    for groups in groups.chunks(usize::from(u8::MAX) / 6) {
        let mut lanes = [0u8; 32];
        for group in groups {
            for (lane, byte) in lanes.iter_mut().zip(group) {
                *lane += width(*byte);
            }
        }
        sum += lanes.iter().map(|lane| u64::from(*lane)).sum::<u64>();
    }
    sum
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

/// Integers, each with the number of digits of its absolute value. Comparing with all powers of ten
/// vectorises, but for 64 bits.
macro_rules! integer {
    ($($type:ty: $digits:expr;)*) => {$(
        impl Number for $type {
            read!($type);

            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(itoa::Buffer::new().format(self).as_bytes());
            }

            #[inline]
            #[allow(unused_comparisons)]
            fn width(self) -> u32 {
                $digits(self.abs_diff(0)) as u32 + u32::from(self < 0)
            }
        }
    )*};
}

macro_rules! digits {
    ($type:ty: $($ten:literal)*) => {
        |n: $type| 1 $(+ <$type>::from(n >= $ten))*
    };
}

#[rustfmt::skip]
integer! {
    u8: digits!(u8: 10 100);
    i8: digits!(u8: 10 100);
    u16: digits!(u16: 10 100 1000 10000);
    i16: digits!(u16: 10 100 1000 10000);
    u32: digits!(u32: 10 100 1000 10000 100000 1000000 10000000 100000000 1000000000);
    i32: digits!(u32: 10 100 1000 10000 100000 1000000 10000000 100000000 1000000000);
    u64: |n: u64| 1 + n.checked_ilog10().unwrap_or(0);
    i64: |n: u64| 1 + n.checked_ilog10().unwrap_or(0);
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
    fn width(self) -> u32 {
        5 - u32::from(self.0)
    }
}

/// Floats. Integers up to a bound are exact, and so their own shortest decimals: most scores of a
/// vocabulary are such. Most other floats zmij prints, several times faster than std, in the same
/// form but for a `+` in large exponents.
macro_rules! float {
    ($($type:ty: $exact:literal, $same_form:expr, $tiny:literal;)*) => {$(
        impl Number for $type {
            read!($type);

            fn write(self, out: &mut Vec<u8>) {
                let size = self.abs();
                if self.is_nan() {
                    out.extend_from_slice(b"nan");
                } else if size < $exact && self.trunc() == self {
                    if self.is_sign_negative() {
                        out.push(b'-');
                    }
                    (size as u64).write(out);
                    out.extend_from_slice(b".0");
                } else if size < $tiny || $same_form.contains(&size) {
                    out.extend_from_slice(zmij::Buffer::new().format_finite(self).as_bytes());
                } else {
                    // Writing to memory cannot fail.
                    let _ = write!(out, "{self:?}");
                }
            }

            fn width(self) -> u32 {
                let size = self.abs();
                if size < $exact && self.trunc() == self {
                    (size as u64).width() + 2 + u32::from(self.is_sign_negative())
                } else if size < $tiny || $same_form.contains(&size) {
                    zmij::Buffer::new().format_finite(self).len() as u32
                } else if size >= 1e16 && size.is_finite() {
                    zmij::Buffer::new().format_finite(self).len() as u32 - 1
                } else {
                    let mut out = Vec::new();
                    self.write(&mut out);
                    out.len() as u32
                }
            }

            fn is_finite(self) -> bool {
                <$type>::is_finite(self)
            }
        }
    )*};
}

float! {
    f32: 16_777_216.0, (1e-4..1e13), 1e-6;
    f64: 9_007_199_254_740_992.0, (1e-4..1e16), 1e-5;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn text<N: Number>(number: N) -> String {
        let mut out = Vec::new();
        number.write(&mut out);
        assert_eq!(number.width(), out.len() as u32, "{}", String::from_utf8_lossy(&out));
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

    /// The text reads back to the float, and is as long and of the same form as what std prints:
    /// between two decimals that are as near, either may be chosen.
    fn check<F: Number + std::fmt::Debug + std::str::FromStr<Err: std::fmt::Debug>>(float: F) {
        let (found, std) = (text(float), format!("{float:?}"));
        assert_eq!(format!("{:?}", found.parse::<F>().unwrap()), std);
        assert_eq!(found.len(), std.len(), "{found} {std}");
        for mark in ['.', 'e', '-'] {
            assert_eq!(found.find(mark), std.find(mark), "{found} {std}");
        }
    }

    #[test]
    fn any_float_reads_back_to_its_bits() {
        let mut bits = 0x2545_F491_4F6C_DD1Du64;
        for _ in 0..20_000 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            let any = f64::from_bits(bits);
            for wide in [any, bits as i32 as f64 / 1024.0, bits as f64 / 1e15, 1e5 / bits as f64] {
                if wide.is_finite() {
                    check(wide);
                    check(wide.trunc());
                }
            }
            let any = f32::from_bits(bits as u32);
            for narrow in [any, bits as i16 as f32 / 64.0, bits as f32 / 1e15, 1e5 / bits as f32] {
                if narrow.is_finite() {
                    check(narrow);
                    check(narrow.trunc());
                }
            }
        }
    }
}
