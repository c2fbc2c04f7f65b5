//! The order of names as people count: `blk.2` before `blk.10`.

use std::cmp::Ordering;

/// Compares names; a run of digits counts as the number it is, of any length.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (mut left, mut right) = (a, b);
    while let (Some(x), Some(y)) = (left.first(), right.first()) {
        let order = if x.is_ascii_digit() && y.is_ascii_digit() {
            let (m, n) = (number(&mut left), number(&mut right));
            m.len().cmp(&n.len()).then_with(|| m.cmp(n))
        } else {
            (left, right) = (&left[1..], &right[1..]);
            x.cmp(y)
        };
        if order.is_ne() {
            return order;
        }
    }
    // Alike but for zeros before a number: 7 and 007.
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Takes the digits off the front of `name`, without the zeros before them.
fn number<'a>(name: &mut &'a [u8]) -> &'a [u8] {
    let end = name.iter().position(|b| !b.is_ascii_digit()).unwrap_or(name.len());
    let (digits, rest) = name.split_at(end);
    *name = rest;
    let zeros = digits.iter().take_while(|b| **b == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let sorted: [&[u8]; 13] = [
            b"",
            b"0",
            b"007",
            b"7",
            b"7a",
            b"18446744073709551616",
            b"blk",
            b"blk.0.attn",
            b"blk.2.a10.z",
            b"blk.2.b",
            b"blk.10.a",
            b"blk.x",
            b"\xff1",
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }
}
