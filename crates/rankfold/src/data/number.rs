//! Numbers in text, correctly rounded and fast where that is easy.

use crate::Real;

/// Powers of ten that `f64` holds exactly.
const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Why a field is no number of the wanted precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NoNumber {
    /// The text is something else (`nan` and `inf` too).
    Syntax,
    /// The number is finite, but too large.
    TooLarge,
}

/// Reads a finite decimal number, rounded once.
#[inline]
pub(super) fn number<R: Real>(text: &[u8]) -> Result<R, NoNumber> {
    match short(text) {
        // Rounding to f64 and then to f32 rounds twice, which can only go
        // wrong where the f64 lies half way between two f32.
        Some(value) if R::NAME == "f64" || !half_way(value) => finite(R::from_f64(value)),
        _ => long(text),
    }
}

fn half_way(value: f64) -> bool {
    value.to_bits() & 0x1fff_ffff == 0x1000_0000
        || (value != 0.0 && value.abs() < f64::from(f32::MIN_POSITIVE))
}

fn finite<R: Real>(value: R) -> Result<R, NoNumber> {
    if value.to_f64().is_finite() {
        Ok(value)
    } else {
        Err(NoNumber::TooLarge)
    }
}

/// A plain decimal whose digits and power of ten are both exact in `f64`: one
/// multiplication or division then rounds correctly [Clinger 1990].
#[inline]
fn short(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let (mut mantissa, mut point) = (0u64, None);
    for (i, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => mantissa = mantissa * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(i),
            _ => return None,
        }
    }
    let decimals = point.map_or(0, |i| digits.len() - 1 - i);
    if mantissa >= 1 << 53 || digits.len() == usize::from(point.is_some()) {
        return None;
    }
    let value = mantissa as f64 / TENS[decimals];
    Some(if negative { -value } else { value })
}

#[cold]
fn long<R: Real>(text: &[u8]) -> Result<R, NoNumber> {
    let plain = |b: &u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    if !text.iter().all(plain) {
        return Err(NoNumber::Syntax);
    }
    let text = std::str::from_utf8(text).map_err(|_| NoNumber::Syntax)?;
    let value = if R::NAME == "f32" {
        text.parse::<f32>().map(f64::from)
    } else {
        text.parse::<f64>()
    };
    finite(R::from_f64(value.map_err(|_| NoNumber::Syntax)?))
}

/// Words for a value that is not known.
const MISSING: [&str; 7] = ["", "na", "n/a", "nan", "null", "none", "?"];

/// Whether a cell says that its value is not known.
pub(super) fn is_missing(cell: &[u8]) -> bool {
    cell.len() <= 4
        && MISSING
            .iter()
            .any(|word| cell.eq_ignore_ascii_case(word.as_bytes()))
}

/// A moment as seconds: a number as it is, or a date such as `2015-03-31`, also with a time
/// such as `2015-03-31 23:59:01` behind it.
pub(super) fn moment(text: &[u8]) -> Option<f64> {
    if let Ok(value) = number::<f64>(text) {
        return Some(value);
    }
    let text = std::str::from_utf8(text).ok()?;
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (
            date,
            time.trim_end_matches('Z').trim_end_matches("UTC").trim(),
        ),
        None => (text, "00:00:00"),
    };
    let whole = |part: &str, most: i64| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let value = part.parse::<i64>().ok().filter(|_| digits);
        value.filter(|value| *value <= most)
    };
    let mut parts = date.split('-');
    let mut part = |most| whole(parts.next()?, most);
    let (year, month, day) = (part(9999)?, part(12)?, part(31)?);
    if parts.next().is_some() || month == 0 || day == 0 {
        return None;
    }
    let mut parts = time.split(':');
    let hour = whole(parts.next()?, 24)?;
    let minute = whole(parts.next()?, 59)?;
    let second = number::<f64>(parts.next().unwrap_or("0").as_bytes()).ok()?;
    if parts.next().is_some() || !(0.0..61.0).contains(&second) {
        return None;
    }
    // Days since 1970 of the calendar of today, with years that begin in March.
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((days * 86_400 + hour * 3_600 + minute * 60) as f64 + second)
}

/// One spelling for each number that names a label: `1`, `+1` and `1.0` are
/// `1`. Whole numbers keep all their digits.
pub(super) fn label_name(text: &[u8]) -> Option<std::borrow::Cow<'_, str>> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if whole && (digits.len() == 1 || digits[0] != b'0') {
        return std::str::from_utf8(digits).ok().map(Into::into);
    }
    let value: f64 = number(text).ok()?;
    // Adding zero turns −0 into 0.
    Some((value + 0.0).to_string().into())
}

/// A field as an error shows it: short, and readable whatever its bytes.
pub(super) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out = String::from("`");
    out.extend(text.chars().take(40).flat_map(char::escape_debug));
    out.push_str(if text.chars().nth(40).is_some() {
        "…`"
    } else {
        "`"
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn numbers_are_rounded_as_the_standard_library_does(
            text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,12})?([eE][+-]?[0-9]{1,2})?",
        ) {
            let want: f64 = text.parse().unwrap();
            prop_assert_eq!(number::<f64>(text.as_bytes()), finite(want));
            let want: f32 = text.parse().unwrap();
            prop_assert_eq!(number::<f32>(text.as_bytes()), finite(want));
        }

        #[test]
        fn printed_values_come_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                prop_assert_eq!(number::<f64>(value.to_string().as_bytes()), Ok(value));
            }
            let value = f32::from_bits(bits as u32);
            if value.is_finite() {
                prop_assert_eq!(number::<f32>(value.to_string().as_bytes()), Ok(value));
            }
        }

        #[test]
        fn nothing_else_is_a_number(text in "[-+.eE0-9a-f ]{0,6}") {
            let want = text.parse::<f64>().ok().filter(|v| v.is_finite());
            prop_assert_eq!(number::<f64>(text.as_bytes()).ok(), want);
        }
    }

    #[test]
    fn a_number_half_way_between_two_f32_is_rounded_once() {
        // 1 + 2⁻²⁴ + 2⁻⁶⁰, which f64 rounds to 1 + 2⁻²⁴ and f32 then to 1.
        let text = "1.000000059604644776";
        assert_eq!(number::<f32>(text.as_bytes()), Ok(text.parse().unwrap()));
        let small = "0.00000000000000000000000000000000000000000000140129846432481707";
        assert_eq!(number::<f32>(small.as_bytes()), Ok(small.parse().unwrap()));
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "",
            "+",
            ".",
            "nan",
            "inf",
            "-Infinity",
            "1e",
            "1.2.3",
            "0x1",
        ] {
            assert_eq!(
                number::<f64>(text.as_bytes()),
                Err(NoNumber::Syntax),
                "{text}"
            );
        }
        assert_eq!(number::<f32>(b"1e39"), Err(NoNumber::TooLarge));
        assert_eq!(number::<f64>(b"1e400"), Err(NoNumber::TooLarge));
    }

    #[test]
    fn labels_have_one_spelling() {
        for (text, want) in [
            ("1", "1"),
            ("+1", "1"),
            ("1.0", "1"),
            ("-1", "-1"),
            ("-0", "0"),
        ] {
            assert_eq!(label_name(text.as_bytes()).unwrap(), want);
        }
        assert_eq!(label_name(b"007").unwrap(), "7");
        assert_eq!(label_name(b"2.50").unwrap(), "2.5");
        assert_eq!(label_name(b"9007199254740993").unwrap(), "9007199254740993");
        assert_eq!(label_name(b"x"), None);
        assert_eq!(label_name(b""), None);
    }

    #[test]
    fn moments_are_numbers_or_dates() {
        assert_eq!(moment(b"881250949"), Some(881_250_949.0));
        assert_eq!(moment(b"1970-01-01"), Some(0.0));
        assert_eq!(moment(b"2000-03-01"), Some(951_868_800.0));
        assert_eq!(moment(b"2015-03-31T23:59:01Z"), Some(1_427_846_341.0));
        assert_eq!(moment(b"2015-03-31 23:59:01.5"), Some(1_427_846_341.5));
        for bad in [
            "noon",
            "2015-13-01",
            "2015-00-01",
            "31.3.2015",
            "2015-3",
            "2015-03-31 x",
        ] {
            assert_eq!(moment(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn missing_values_have_many_words() {
        for word in ["", "NA", "n/a", "NaN", "nan", "NULL", "?", "None"] {
            assert!(is_missing(word.as_bytes()), "{word}");
        }
        for word in ["0", "-", "nano", "missing", "NAN1"] {
            assert!(!is_missing(word.as_bytes()), "{word}");
        }
    }
}
