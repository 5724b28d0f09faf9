//! Terms of a text: words of at least two letters, lower-cased, runs of such words, or runs of
//! letters.
//!
//! Words are runs of letters `a` to `z`, or those of the Unicode standard (annex 29), cut where
//! digits or signs stand in them; of plain English text both are the same. Scripts without
//! spaces have words of one letter.

use std::path::Path;

use hashbrown::HashSet;
use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};
use unicode_segmentation::UnicodeSegmentation;

use super::stop_words::STOP_WORDS;
use crate::Result;
use crate::data::open::Lines;

/// The longest run of words or letters that is a term.
const LONGEST: usize = 8;

/// From how many words or letters to how many a term has, both counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths {
    /// The least.
    pub from: usize,
    /// The most.
    pub to: usize,
}

impl Default for Lengths {
    fn default() -> Self {
        Lengths { from: 1, to: 1 }
    }
}

impl Lengths {
    /// Whether they can be used.
    pub(super) fn is_possible(self) -> bool {
        1 <= self.from && self.from <= self.to && self.to <= LONGEST
    }
}

impl std::str::FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str| text.parse::<usize>().ok();
        let lengths = number(from).zip(number(to));
        let lengths = lengths.map(|(from, to)| Lengths { from, to });
        let possible = lengths.filter(|lengths| lengths.is_possible());
        possible.ok_or_else(|| format!("expected a range such as 1..2, up to {LONGEST}"))
    }
}

/// Words that are no terms.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopWords {
    /// The usual 318 English ones.
    #[default]
    English,
    /// None.
    None,
    /// These, in lower case.
    Listed(Vec<String>),
}

impl StopWords {
    /// Words of a file, one a line; `english` and `none` mean what they say.
    pub fn read(name: &str) -> Result<Self> {
        match name {
            "english" => Ok(StopWords::English),
            "none" => Ok(StopWords::None),
            path => {
                let (mut lines, mut words) = (Lines::open(Path::new(path))?, Vec::new());
                while let Some(line) = lines.next_line()? {
                    let Ok(word) = std::str::from_utf8(line.trim_ascii()) else {
                        return Err(lines.error("expected a word in UTF-8"));
                    };
                    if !word.is_empty() {
                        words.push(word.to_lowercase());
                    }
                }
                Ok(StopWords::Listed(words))
            }
        }
    }
}

/// Which letters words are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alphabet {
    /// `a` to `z`; other letters end a word.
    #[default]
    Plain,
    /// All letters, in words of the Unicode standard.
    Unicode,
}

impl Alphabet {
    fn is_plain(&self) -> bool {
        *self == Alphabet::Plain
    }
}

impl std::str::FromStr for Alphabet {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "plain" => Ok(Alphabet::Plain),
            "unicode" => Ok(Alphabet::Unicode),
            _ => Err(format!("expected `plain` or `unicode`, found `{text}`")),
        }
    }
}

/// What the terms of a text are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TermRules {
    /// Which letters words are made of.
    #[serde(default, skip_serializing_if = "Alphabet::is_plain")]
    pub alphabet: Alphabet,
    /// Whether accents are left out: `café` is `cafe`.
    #[serde(default)]
    pub fold: bool,
    /// Words that are no terms.
    #[serde(default)]
    pub stop_words: StopWords,
    /// How many words a term has.
    #[serde(default)]
    pub words: Lengths,
    /// How many letters a term has, where terms are runs of letters instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub letters: Option<Lengths>,
}

/// Makes terms, with memory that is used again.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokenizer {
    rules: TermRules,
    stop: HashSet<String>,
    text: String,
    words: Vec<String>,
    term: String,
}

impl Tokenizer {
    pub(super) fn new(rules: &TermRules) -> Self {
        let fold = |word: &str| match rules.fold {
            true => folded(word),
            false => word.to_owned(),
        };
        let stop = match &rules.stop_words {
            StopWords::English => STOP_WORDS.iter().map(|word| (*word).to_owned()).collect(),
            StopWords::None => HashSet::new(),
            StopWords::Listed(words) => words.iter().map(|word| fold(word)).collect(),
        };
        Tokenizer {
            rules: rules.clone(),
            stop,
            ..Default::default()
        }
    }

    /// The same to find terms that are known. Where words are terms, stop words are none of
    /// them, and need not be left out.
    pub(super) fn of_known(rules: &TermRules) -> Self {
        let stop_words = match rules.words.to {
            1 => StopWords::None,
            _ => rules.stop_words.clone(),
        };
        Self::new(&TermRules {
            stop_words,
            ..rules.clone()
        })
    }

    /// Calls `each` with every term of the text.
    pub(super) fn for_each(&mut self, text: &str, mut each: impl FnMut(&str)) {
        self.text.clear();
        if text.is_ascii() {
            self.text.push_str(text);
            self.text.make_ascii_lowercase();
        } else {
            // The whole text: the Kelvin sign becomes a `k` inside a word.
            self.text = text.to_lowercase();
            if self.rules.fold {
                self.text = folded(&self.text);
            }
        }
        let (stop, Lengths { from, to }) = (&self.stop, self.rules.words);
        let alphabet = self.rules.alphabet;
        match self.rules.letters {
            Some(lengths) => letters(&self.text, alphabet, lengths, &mut self.term, each),
            None if to == 1 => words(&self.text, alphabet, |word| {
                if !stop.contains(word) {
                    each(word);
                }
            }),
            None => {
                let found = &mut self.words;
                found.clear();
                words(&self.text, alphabet, |word| {
                    if !stop.contains(word) {
                        found.push(word.to_owned());
                    }
                });
                for count in from..=to {
                    for run in self.words.windows(count) {
                        self.term.clear();
                        for (i, word) in run.iter().enumerate() {
                            self.term.push_str(if i == 0 { "" } else { " " });
                            self.term.push_str(word);
                        }
                        each(&self.term);
                    }
                }
            }
        }
    }
}

/// Letters without their accents, and letters that are two.
fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.nfd().filter(|c| !is_combining_mark(*c)) {
        match c {
            'ß' => out.push_str("ss"),
            'æ' => out.push_str("ae"),
            'œ' => out.push_str("oe"),
            'ø' => out.push('o'),
            'ł' => out.push('l'),
            'đ' | 'ð' => out.push('d'),
            'þ' => out.push_str("th"),
            'ı' => out.push('i'),
            other => out.push(other),
        }
    }
    out
}

/// Whether a sign belongs to a word: letters, and marks on them.
fn belongs(c: char, alphabet: Alphabet) -> bool {
    match c.is_ascii() || alphabet.is_plain() {
        true => c.is_ascii_lowercase(),
        false => c.is_alphabetic() || is_combining_mark(c),
    }
}

/// Whether a letter can be a word: scripts that write no spaces have such words.
fn is_word(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn words(text: &str, alphabet: Alphabet, mut each: impl FnMut(&str)) {
    if text.is_ascii() || alphabet.is_plain() {
        return pieces(text, alphabet, &mut each);
    }
    for word in text.unicode_words() {
        pieces(word, alphabet, &mut each);
    }
}

/// The runs of letters in a word that are long enough.
fn pieces(word: &str, alphabet: Alphabet, each: &mut impl FnMut(&str)) {
    for piece in word.split(|c| !belongs(c, alphabet)) {
        let mut letters = piece.chars();
        match (letters.next(), letters.next()) {
            (Some(_), Some(_)) => each(piece),
            (Some(c), None) if is_word(c) => each(piece),
            _ => {}
        }
    }
}

/// Runs of letters, none of which goes beyond what is written without a space.
fn letters(
    text: &str,
    alphabet: Alphabet,
    lengths: Lengths,
    term: &mut String,
    mut each: impl FnMut(&str),
) {
    for run in text.split(|c| !belongs(c, alphabet)) {
        let signs: Vec<char> = run.chars().collect();
        for count in lengths.from..=lengths.to {
            for part in signs.windows(count) {
                term.clear();
                term.extend(part);
                each(term);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terms(text: &str, rules: &TermRules) -> Vec<String> {
        let mut out = Vec::new();
        Tokenizer::new(rules).for_each(text, |token| out.push(token.to_owned()));
        out
    }

    fn unicode() -> TermRules {
        TermRules {
            alphabet: Alphabet::Unicode,
            ..Default::default()
        }
    }

    #[test]
    fn plain_words_end_at_other_letters() {
        let rules = TermRules::default();
        assert_eq!(terms("na\u{ef}ve 1\u{212a}g", &rules), ["na", "ve", "kg"]);
    }

    fn words_of(text: &str) -> Vec<String> {
        let stop_words = StopWords::None;
        terms(
            text,
            &TermRules {
                stop_words,
                ..unicode()
            },
        )
    }

    #[test]
    fn words_are_runs_of_letters() {
        assert_eq!(
            words_of("Don't e-mail ME2you, x!"),
            ["don", "mail", "me", "you"]
        );
        assert_eq!(words_of("na\u{ef}ve 1\u{212a}g"), ["na\u{ef}ve", "kg"]);
        assert!(words_of("").is_empty());
        assert_eq!(words_of("ab"), ["ab"]);
        assert_eq!(words_of("Zürich Straße café"), ["zürich", "straße", "café"]);
        assert_eq!(words_of("日本 x foo.bar"), ["日", "本", "foo", "bar"]);
        assert_eq!(words_of("हिन्दी"), ["हिन्दी"]);
    }

    #[test]
    fn accents_are_folded_where_that_is_asked() {
        let rules = TermRules {
            fold: true,
            ..Default::default()
        };
        assert_eq!(
            terms("Zürich Straße café Łódź", &rules),
            ["zurich", "strasse", "cafe", "lodz"]
        );
    }

    #[test]
    fn runs_of_words_and_of_letters() {
        let rules = TermRules {
            words: "1..2".parse().unwrap(),
            ..Default::default()
        };
        let want = ["state", "art", "new", "state art", "art new"];
        assert_eq!(terms("State of the art, new", &rules), want);
        let rules = TermRules {
            letters: "2..3".parse().ok(),
            ..unicode()
        };
        assert_eq!(terms("abc d", &rules), ["ab", "bc", "abc"]);
        assert_eq!(terms("日本語", &rules), ["日本", "本語", "日本語"]);
        for bad in ["0..1", "2..1", "1..9", "x", "1..", ""] {
            assert!(bad.parse::<Lengths>().is_err(), "{bad}");
        }
    }

    #[test]
    fn stop_words_are_chosen() {
        let listed = StopWords::Listed(vec!["und".into()]);
        let rules = TermRules {
            stop_words: listed,
            ..Default::default()
        };
        assert_eq!(terms("the Haus und Hof", &rules), ["the", "haus", "hof"]);
        assert_eq!(terms("the house", &TermRules::default()), ["house"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn plain_text_in_a_text_of_all_signs_has_the_same_words(text in "[a-cA-C0-9 '._,\n-]{0,40}") {
            let lower = text.to_lowercase();
            let runs = lower.split(|c: char| !c.is_ascii_lowercase()).filter(|run| run.len() >= 2);
            let want: Vec<String> = runs.map(str::to_owned).collect();
            prop_assert_eq!(words_of(&text), want.clone());
            prop_assert_eq!(words_of(&format!("{text} \u{e9}")), want);
        }
    }
}
