//! Numbers as a reader wants them.

/// What stands for a number that is missing.
const MISSING: &str = "–";

/// With that many decimals.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    let size = value.abs();
    let text = if size < 1e9 {
        format!("{size:.decimals$}")
    } else {
        format!("{size:.1e}")
    };
    // What rounds to zero has no sign.
    let negative = value < 0.0 && text.bytes().any(|b| matches!(b, b'1'..=b'9'));
    if negative { format!("−{text}") } else { text }
}

/// With that many decimals and always a sign, for changes.
pub fn signed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    let positive = value > 0.0 && text.bytes().any(|b| matches!(b, b'1'..=b'9'));
    if positive { format!("+{text}") } else { text }
}

/// A whole number with its thousands apart.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number on an axis.
pub fn tick(value: f64, decimals: usize) -> String {
    if decimals == 0 && value >= 0.0 {
        count(value.round() as u64)
    } else {
        fixed(value, decimals)
    }
}

/// A stretch of time.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        "an unknown time".to_owned()
    } else if seconds < 0.1 {
        "less than 0.1 seconds".to_owned()
    } else if seconds < 59.95 {
        format!("{seconds:.1} seconds")
    } else {
        let whole = seconds.round() as u64;
        format!("{} min {} s", count(whole / 60), whole % 60)
    }
}

/// A place in a drawing: a tenth of a unit is finer than the eye. Numbers too
/// large to draw give a place off the paper, or none that matters.
pub fn place(value: f64) -> String {
    let value = if value.is_nan() { 0.0 } else { value };
    let text = format!("{:.1}", value.clamp(-9999.0, 9999.0));
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(fixed(0.91251, 3), "0.913");
        assert_eq!(fixed(-0.5, 1), "−0.5");
        assert_eq!(fixed(-0.0001, 3), "0.000");
        assert_eq!(fixed(f64::NAN, 3), "–");
        assert_eq!(fixed(1.5e300, 3), "1.5e300");
        assert_eq!(signed(0.25, 2), "+0.25");
        assert_eq!(signed(-0.25, 2), "−0.25");
        assert_eq!(signed(0.0001, 2), "0.00");
        assert_eq!(signed(f64::INFINITY, 2), "–");
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(tick(20_000.0, 0), "20,000");
        assert_eq!(tick(0.5, 1), "0.5");
        assert_eq!(place(12.04), "12");
        assert_eq!(place(12.06), "12.1");
        assert_eq!(place(f64::INFINITY), "9999");
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(0.02), "less than 0.1 seconds");
        assert_eq!(duration(2.345), "2.3 seconds");
        assert_eq!(duration(59.99), "1 min 0 s");
        assert_eq!(duration(75.4), "1 min 15 s");
        assert_eq!(duration(f64::NAN), "an unknown time");
    }
}
