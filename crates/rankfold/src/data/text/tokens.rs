//! Words of a text: runs of at least two letters `a` to `z`, lower-cased.

/// Calls `each` with every token of the text; `buffer` is scratch.
pub(super) fn for_each_token(text: &str, buffer: &mut String, mut each: impl FnMut(&str)) {
    buffer.clear();
    if text.is_ascii() {
        buffer.push_str(text);
        buffer.make_ascii_lowercase();
    } else {
        // The whole text: the Kelvin sign becomes a `k` inside a word.
        *buffer = text.to_lowercase();
    }
    let bytes = buffer.as_bytes();
    let mut start = 0;
    for end in 0..=bytes.len() {
        if bytes.get(end).is_some_and(u8::is_ascii_lowercase) {
            continue;
        }
        if end - start >= 2 {
            each(&buffer[start..end]);
        }
        start = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        for_each_token(text, &mut String::new(), |token| out.push(token.to_owned()));
        out
    }

    #[test]
    fn tokens_are_runs_of_letters() {
        assert_eq!(
            tokens("Don't e-mail ME2you, x!"),
            ["don", "mail", "me", "you"]
        );
        assert_eq!(tokens("na\u{ef}ve 1\u{212a}g"), ["na", "ve", "kg"]);
        assert!(tokens("").is_empty());
        assert_eq!(tokens("ab"), ["ab"]);
    }
}
