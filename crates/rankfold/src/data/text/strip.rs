//! Leaves out what is not the author's text in mail and news messages.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A part of a message to leave out, by the conventions usual for the 20
/// Newsgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Strip {
    /// All up to the first empty line.
    Headers,
    /// The last paragraph, when an empty line or a line of dashes comes before it.
    Footers,
    /// Lines that start with `>` or `|`, and lines that announce a quotation.
    Quotes,
}

impl std::str::FromStr for Strip {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "headers" => Ok(Strip::Headers),
            "footers" => Ok(Strip::Footers),
            "quotes" => Ok(Strip::Quotes),
            _ => Err(format!(
                "expected headers, footers or quotes, found `{text}`"
            )),
        }
    }
}

/// The text without the parts named: headers first, then footers, then quotes.
pub(super) fn strip<'a>(text: &'a str, parts: &[Strip]) -> Cow<'a, str> {
    let mut text = text;
    if parts.contains(&Strip::Headers) {
        text = without_headers(text);
    }
    if parts.contains(&Strip::Footers) {
        text = without_footer(text);
    }
    if parts.contains(&Strip::Quotes) {
        let own: Vec<&str> = text.split('\n').filter(|line| !is_quote(line)).collect();
        return own.join("\n").into();
    }
    text.into()
}

fn without_headers(text: &str) -> &str {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        start += line.len();
        if matches!(line, "\n" | "\r\n") {
            return &text[start..];
        }
    }
    ""
}

fn without_footer(text: &str) -> &str {
    let body = text.trim();
    let mut end = body.len();
    loop {
        let start = body[..end].rfind('\n').map_or(0, |at| at + 1);
        let is_rule = body[start..end].trim().bytes().all(|b| b == b'-');
        if start == 0 {
            return text;
        }
        if is_rule {
            return &body[..start - 1];
        }
        end = start - 1;
    }
}

fn is_quote(line: &str) -> bool {
    let starts = [">", "|", "In article", "Quoted from"];
    let holds = ["writes in", "writes:", "wrote:", "says:", "said:"];
    starts.iter().any(|mark| line.starts_with(mark)) || holds.iter().any(|mark| line.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str =
        "From: a\nSubject: b\n\nC wrote:\n> old\n| older\nnew\n\nmore\n--\nMe\n\n";

    #[test]
    fn each_part_goes() {
        use Strip::{Footers, Headers, Quotes};
        let body = "C wrote:\n> old\n| older\nnew\n\nmore\n--\nMe\n\n";
        assert_eq!(strip(MESSAGE, &[Headers]), body);
        assert_eq!(
            strip(MESSAGE, &[Footers, Headers]),
            "C wrote:\n> old\n| older\nnew\n\nmore"
        );
        assert_eq!(strip(MESSAGE, &[Quotes, Footers, Headers]), "new\n\nmore");
        assert_eq!(strip(MESSAGE, &[]), MESSAGE);
    }

    #[test]
    fn awkward_messages() {
        assert_eq!(strip("no header end", &[Strip::Headers]), "");
        assert_eq!(strip("a: b\r\n\r\ntext", &[Strip::Headers]), "text");
        assert_eq!(
            strip("one paragraph\nonly\n", &[Strip::Footers]),
            "one paragraph\nonly\n"
        );
        assert_eq!(strip("---\nx", &[Strip::Footers]), "---\nx");
        assert_eq!(strip("", &[Strip::Footers, Strip::Quotes]), "");
    }
}
