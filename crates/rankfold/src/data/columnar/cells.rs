//! Cells of columns as fields of a record.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};

/// What a column holds that cannot be given as a field; `None` for all others.
pub(super) fn refused(kind: &DataType) -> Option<&'static str> {
    use DataType::*;
    match kind {
        List(_) | LargeList(_) | ListView(_) | LargeListView(_) | FixedSizeList(..) => {
            Some("lists")
        }
        Struct(_) => Some("records"),
        Map(..) => Some("maps"),
        Union(..) => Some("values of several types"),
        RunEndEncoded(..) => Some("runs"),
        Time32(_) | Time64(_) => Some("times of day"),
        Duration(_) | Interval(_) => Some("durations"),
        Dictionary(_, values) => refused(values),
        _ => None,
    }
}

/// Appends a cell as a field; nothing where it is missing.
pub(super) fn put(array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    use DataType::*;
    if array.is_null(row) {
        return;
    }
    match array.data_type() {
        Boolean => out.push(b'0' + u8::from(array.as_boolean().value(row))),
        Int8 => whole::<Int8Type>(array, row, out),
        Int16 => whole::<Int16Type>(array, row, out),
        Int32 => whole::<Int32Type>(array, row, out),
        Int64 => whole::<Int64Type>(array, row, out),
        UInt8 => whole::<UInt8Type>(array, row, out),
        UInt16 => whole::<UInt16Type>(array, row, out),
        UInt32 => whole::<UInt32Type>(array, row, out),
        UInt64 => whole::<UInt64Type>(array, row, out),
        Float16 => {
            let value = array.as_primitive::<Float16Type>().value(row).to_f32();
            float(f64::from(value), &value, out);
        }
        Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            float(f64::from(value), &value, out);
        }
        Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            float(value, &value, out);
        }
        Decimal32(..) => decimal::<Decimal32Type>(array, row, out),
        Decimal64(..) => decimal::<Decimal64Type>(array, row, out),
        Decimal128(..) => decimal::<Decimal128Type>(array, row, out),
        Decimal256(..) => decimal::<Decimal256Type>(array, row, out),
        Utf8 => text(array.as_string::<i32>().value(row).as_bytes(), out),
        LargeUtf8 => text(array.as_string::<i64>().value(row).as_bytes(), out),
        Utf8View => text(array.as_string_view().value(row).as_bytes(), out),
        Binary => text(array.as_binary::<i32>().value(row), out),
        LargeBinary => text(array.as_binary::<i64>().value(row), out),
        BinaryView => text(array.as_binary_view().value(row), out),
        FixedSizeBinary(_) => text(array.as_fixed_size_binary().value(row), out),
        Date32 => moment(integer(array, row).saturating_mul(86_400), 0, false, out),
        Date64 => moment(integer(array, row).div_euclid(1_000), 0, false, out),
        Timestamp(unit, _) => {
            let per_second = match unit {
                TimeUnit::Second => 1,
                TimeUnit::Millisecond => 1_000,
                TimeUnit::Microsecond => 1_000_000,
                TimeUnit::Nanosecond => 1_000_000_000,
            };
            let value = integer(array, row);
            let rest = value.rem_euclid(per_second) * (1_000_000_000 / per_second);
            moment(value.div_euclid(per_second), rest, true, out);
        }
        Dictionary(key, _) => match **key {
            Int8 => word::<Int8Type>(array, row, out),
            Int16 => word::<Int16Type>(array, row, out),
            Int32 => word::<Int32Type>(array, row, out),
            Int64 => word::<Int64Type>(array, row, out),
            UInt8 => word::<UInt8Type>(array, row, out),
            UInt16 => word::<UInt16Type>(array, row, out),
            UInt32 => word::<UInt32Type>(array, row, out),
            UInt64 => word::<UInt64Type>(array, row, out),
            _ => {}
        },
        // Null, and what is left out before.
        _ => {}
    }
}

/// Appends a field, in quotes where it would end early without them.
pub(super) fn text(field: &[u8], out: &mut Vec<u8>) {
    if !field.iter().any(|byte| b",\"\r\n".contains(byte)) {
        return out.extend_from_slice(field);
    }
    out.push(b'"');
    for &byte in field {
        out.push(byte);
        if byte == b'"' {
            out.push(byte);
        }
    }
    out.push(b'"');
}

/// Writing into memory cannot fail.
fn say(out: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    _ = out.write_fmt(what);
}

fn whole<T: ArrowPrimitiveType>(array: &dyn Array, row: usize, out: &mut Vec<u8>)
where
    T::Native: std::fmt::Display,
{
    say(
        out,
        format_args!("{}", array.as_primitive::<T>().value(row)),
    );
}

/// `shown` prints the number in its own precision.
fn float(value: f64, shown: &(impl std::fmt::Display + std::fmt::LowerExp), out: &mut Vec<u8>) {
    /// Below and above these, digits are mostly zeros.
    const PLAIN: std::ops::Range<f64> = 1e-5..1e16;
    match value.abs() {
        size if size.is_nan() => {}
        size if size == 0.0 || PLAIN.contains(&size) || size.is_infinite() => {
            say(out, format_args!("{shown}"));
        }
        _ => say(out, format_args!("{shown:e}")),
    }
}

fn decimal<T: DecimalType>(array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    let digits = array.as_primitive::<T>().value_as_string(row);
    // `5.00` and `5` are one id.
    let plain = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => &digits,
    };
    out.extend_from_slice(plain.as_bytes());
}

fn word<K: ArrowDictionaryKeyType>(array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    let array = array.as_dictionary::<K>();
    let words = array.values();
    if let Some(key) = array.key(row).filter(|key| *key < words.len()) {
        put(words, key, out);
    }
}

/// The number behind a date or a time.
fn integer(array: &dyn Array, row: usize) -> i64 {
    use arrow_array::types::{
        Date32Type, Date64Type, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    };
    match array.data_type() {
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).into(),
        DataType::Date64 => array.as_primitive::<Date64Type>().value(row),
        DataType::Timestamp(TimeUnit::Second, _) => {
            array.as_primitive::<TimestampSecondType>().value(row)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            array.as_primitive::<TimestampMillisecondType>().value(row)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row)
        }
        _ => array.as_primitive::<TimestampNanosecondType>().value(row),
    }
}

/// Seconds since 1970 as a date of the calendar of today, with the time of the day where it
/// is asked for.
fn moment(seconds: i64, nanoseconds: i64, with_time: bool, out: &mut Vec<u8>) {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin in March, so that the day that may be missing is the last one.
    let since = days + 719_468;
    let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    say(out, format_args!("{year:04}-{month:02}-{day:02}"));
    if !with_time {
        return;
    }
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    say(out, format_args!("T{hour:02}:{minute:02}:{second:02}"));
    if nanoseconds > 0 {
        let digits = format!("{nanoseconds:09}");
        say(out, format_args!(".{}", digits.trim_end_matches('0')));
    }
    out.push(b'Z');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::number;

    fn date(seconds: i64, with_time: bool) -> String {
        let mut out = Vec::new();
        moment(seconds, 0, with_time, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_are_read_back() {
        assert_eq!(date(0, false), "1970-01-01");
        assert_eq!(date(951_782_399, true), "2000-02-28T23:59:59Z");
        assert_eq!(date(-1, true), "1969-12-31T23:59:59Z");
        for seconds in (-50_000_000_000..200_000_000_000).step_by(86_399_111) {
            let text = date(seconds, true);
            let back = number::moment(text.as_bytes());
            assert_eq!(back, Some(seconds as f64), "{text}");
        }
        // No number of a damaged file is too large.
        for seconds in [i64::MIN / 2, i64::MAX / 2] {
            assert!(!date(seconds, true).is_empty());
        }
    }

    #[test]
    fn floats_are_short_and_come_back() {
        let shown = |value: f64| {
            let mut out = Vec::new();
            float(value, &value, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!((shown(3.0), shown(-0.25)), ("3".into(), "-0.25".into()));
        assert_eq!((shown(1e300), shown(f64::NAN)), ("1e300".into(), "".into()));
        for bits in (0..u64::MAX - (1 << 50)).step_by(1 << 50) {
            let value = f64::from_bits(bits + 0x1234_5678_9abc);
            if value.is_finite() {
                assert_eq!(number::number::<f64>(shown(value).as_bytes()), Ok(value));
            }
        }
    }
}
