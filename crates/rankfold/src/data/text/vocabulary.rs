//! The terms of a collection, and documents as weighted rows over them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::fit::{FitOptions, Fitter};
use super::strip::{Strip, strip};
use super::tokens::{TermRules, Tokenizer};
use crate::data::number::{label_name, number};
use crate::data::open::open;
use crate::{Error, Ids, Real, Result, SparseVec};

/// How often a term counts that stands tf times in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TermFrequency {
    /// tf.
    Raw,
    /// 1 + ln tf.
    Log,
}

/// Terms with their document frequencies: all that is needed to turn a text
/// into a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Vocabulary {
    terms: Ids,
    df: Vec<u32>,
    documents: u32,
    tf: TermFrequency,
    strip: Vec<Strip>,
    classes: Option<Ids>,
    rules: TermRules,
}

/// The newest file format that this version reads, and the one it writes.
const FORMAT: u64 = 1;

/// The file, field by field.
#[derive(Serialize, Deserialize)]
struct Stored {
    format: u64,
    documents: u32,
    tf: TermFrequency,
    strip: Vec<Strip>,
    /// Names of the classes 0, 1, …; absent where labels are numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<Vec<String>>,
    /// What terms are, where it is not the usual.
    #[serde(default, skip_serializing_if = "is_usual")]
    rules: TermRules,
    terms: Vec<String>,
    df: Vec<u32>,
}

fn is_usual(rules: &TermRules) -> bool {
    *rules == TermRules::default()
}

impl Vocabulary {
    pub(super) fn new(
        terms: Ids,
        df: Vec<u32>,
        documents: u32,
        tf: TermFrequency,
        strip: Vec<Strip>,
        classes: Option<Ids>,
        rules: TermRules,
    ) -> Self {
        Vocabulary {
            terms,
            df,
            documents,
            tf,
            strip,
            classes,
            rules,
        }
    }

    /// Learns a vocabulary from texts and their labels.
    pub fn fit<'a>(
        documents: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
        options: FitOptions,
    ) -> Result<Self> {
        let mut fitter = Fitter::new(options);
        for (text, label) in documents {
            fitter.add(text, label);
        }
        fitter.finish()
    }

    /// What its terms are.
    pub fn rules(&self) -> &TermRules {
        &self.rules
    }

    /// The column of a term, given by itself or by its number from 1: a term
    /// has letters only.
    pub fn column(&self, feature: &str) -> Option<u32> {
        let number = feature.parse::<u32>().ok().and_then(|n| n.checked_sub(1));
        let known = number.filter(|&column| (column as usize) < self.terms.len());
        known.or_else(|| self.terms.find(feature))
    }

    /// The term of a column.
    pub fn term(&self, column: u32) -> Option<&str> {
        let known = (column as usize) < self.terms.len();
        known.then(|| self.terms.get(column))
    }

    /// How many terms.
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// Whether there are no terms.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms, the one that tells most about the labels first.
    pub fn terms(&self) -> impl ExactSizeIterator<Item = &str> {
        self.terms.iter()
    }

    /// How many documents it was learned from.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// The names of the classes 0, 1, …, where labels are texts.
    pub fn classes(&self) -> Option<&Ids> {
        self.classes.as_ref()
    }

    /// The label number that stands for a label: the number itself, or the
    /// place of the class.
    pub fn label_number(&self, label: &str) -> std::result::Result<String, String> {
        match &self.classes {
            Some(classes) => classes.find(label).map(|n| n.to_string()).ok_or_else(|| {
                let count = classes.len();
                format!(
                    "label `{label}` is none of the {count} classes the vocabulary was fitted with"
                )
            }),
            None => label_name(label.as_bytes())
                .map(|name| name.into_owned())
                .ok_or_else(|| {
                    format!("label `{label}` is no number, and the vocabulary has no classes")
                }),
        }
    }

    /// A text as a row of length 1 over the terms; empty where it has none.
    pub fn vectorize<R: Real>(&self, text: &str) -> SparseVec<R> {
        let text = strip(text, &self.strip);
        let mut found = Vec::new();
        Tokenizer::of_known(&self.rules).for_each(&text, |token| {
            found.extend(self.terms.find(token));
        });
        found.sort_unstable();
        let weight = |same: &[u32]| {
            let tf = same.len() as f64;
            let tf = match self.tf {
                TermFrequency::Raw => tf,
                TermFrequency::Log => 1.0 + tf.ln(),
            };
            let df = self.df[same[0] as usize];
            (
                same[0],
                tf * (f64::from(self.documents) / f64::from(df)).ln(),
            )
        };
        let weights: Vec<(u32, f64)> = found.chunk_by(|a, b| a == b).map(weight).collect();
        let norm = weights.iter().map(|w| w.1 * w.1).sum::<f64>().sqrt();
        let mut row = SparseVec::new();
        // A term of every document weighs nothing.
        for (term, weight) in weights.into_iter().filter(|w| w.1 > 0.0) {
            row.push(term, R::from_f64(weight / norm));
        }
        row
    }

    /// The same row with the numbers that a file of rows would hold, which has
    /// `f32` in decimal: both ways to a model give the same bytes.
    pub fn row<R: Real>(&self, text: &str) -> SparseVec<R> {
        let mut out = SparseVec::new();
        for (term, weight) in self.vectorize::<f32>(text).as_row().iter() {
            let value = number(weight.to_string().as_bytes());
            out.push(term, value.unwrap_or(R::from_f64(weight.into())));
        }
        out
    }

    /// Writes the file's text.
    pub fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        let texts = |ids: &Ids| ids.iter().map(str::to_owned).collect::<Vec<_>>();
        let stored = Stored {
            format: FORMAT,
            documents: self.documents,
            tf: self.tf,
            strip: self.strip.clone(),
            classes: self.classes.as_ref().map(texts),
            rules: self.rules.clone(),
            terms: texts(&self.terms),
            df: self.df.clone(),
        };
        serde_json::to_writer(&mut *out, &stored)?;
        out.write_all(b"\n")
    }

    /// Saves to a file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        crate::data::write_atomically(path, |out| self.write(out))
    }

    /// Loads a file, which is not trusted.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut text = Vec::new();
        let read = open(path)?.read_to_end(&mut text);
        read.map_err(|e| crate::data::open::reading(path, &e))?;
        Self::parse(&text).map_err(|message| Error::input(message).in_file(path))
    }

    /// From the file's text, which is not trusted.
    pub fn parse(text: &[u8]) -> std::result::Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u64,
        }
        let broken = |e: serde_json::Error| format!("not a vocabulary: {e}");
        let version: Version = serde_json::from_slice(text).map_err(broken)?;
        if version.format != FORMAT {
            let format = version.format;
            return Err(format!(
                "vocabulary format {format} is not supported: this version reads format {FORMAT}"
            ));
        }
        let stored: Stored = serde_json::from_slice(text).map_err(broken)?;
        if stored.terms.is_empty() || stored.terms.len() != stored.df.len() {
            let (terms, df) = (stored.terms.len(), stored.df.len());
            return Err(format!(
                "damaged vocabulary: {terms} terms, but {df} frequencies"
            ));
        }
        let in_range = |&df: &u32| (1..=stored.documents).contains(&df);
        if let Some(at) = stored.df.iter().position(|df| !in_range(df)) {
            let (term, df, documents) = (&stored.terms[at], stored.df[at], stored.documents);
            return Err(format!(
                "damaged vocabulary: `{term}` stands in {df} of {documents} documents"
            ));
        }
        let lengths = stored.rules.letters.unwrap_or_default();
        if !stored.rules.words.is_possible() || !lengths.is_possible() {
            return Err("damaged vocabulary: terms of an impossible length".into());
        }
        let distinct = |names: Vec<String>| -> std::result::Result<Ids, String> {
            let mut ids = Ids::new();
            for (i, name) in names.iter().enumerate() {
                if ids.intern(name) as usize != i {
                    return Err(format!("damaged vocabulary: `{name}` stands twice"));
                }
            }
            Ok(ids)
        };
        Ok(Vocabulary {
            terms: distinct(stored.terms)?,
            df: stored.df,
            documents: stored.documents,
            tf: stored.tf,
            strip: stored.strip,
            classes: stored.classes.map(distinct).transpose()?,
            rules: stored.rules,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary(tf: TermFrequency) -> Vocabulary {
        let documents = [
            ("apple common", Some("b")),
            ("apple banana common", Some("b")),
            ("banana common", Some("a")),
            ("banana cherry common", Some("a")),
        ];
        let options = FitOptions {
            min_df: 1,
            tf,
            ..FitOptions::default()
        };
        Vocabulary::fit(documents, options).unwrap()
    }

    #[test]
    fn weights_are_tf_idf_of_length_one() {
        for (tf, damped) in [
            (TermFrequency::Raw, 3.0),
            (TermFrequency::Log, 1.0 + 3f64.ln()),
        ] {
            let vocabulary = vocabulary(tf);
            let at = |term| vocabulary.terms.find(term).unwrap();
            let row: SparseVec<f64> = vocabulary.vectorize("cherry apple Cherry cherry common new");
            let (cherry, apple) = (damped * 4f64.ln(), 2f64.ln());
            let norm = cherry.hypot(apple);
            let want = SparseVec::from_entries(vec![
                (at("cherry"), cherry / norm),
                (at("apple"), apple / norm),
            ]);
            assert_eq!(row.as_row().indices, want.as_row().indices);
            for (got, want) in row.as_row().values.iter().zip(want.as_row().values) {
                assert!((got - want).abs() < 1e-15);
            }
        }
        assert!(
            vocabulary(TermFrequency::Raw)
                .vectorize::<f32>("common, new")
                .as_row()
                .is_empty()
        );
    }

    #[test]
    fn rows_have_the_numbers_of_a_file() {
        let vocabulary = vocabulary(TermFrequency::Raw);
        let text = "apple banana banana cherry";
        let single: SparseVec<f32> = vocabulary.vectorize(text);
        assert_eq!(vocabulary.row::<f32>(text), single);
        for (wide, value) in vocabulary
            .row::<f64>(text)
            .as_row()
            .values
            .iter()
            .zip(single.as_row().values)
        {
            assert_eq!(wide.to_string(), value.to_string());
        }
    }

    #[test]
    fn labels_become_numbers() {
        let vocabulary = vocabulary(TermFrequency::Raw);
        assert_eq!(vocabulary.label_number("b").as_deref(), Ok("1"));
        assert_eq!(
            vocabulary.label_number("c").unwrap_err(),
            "label `c` is none of the 2 classes the vocabulary was fitted with"
        );
        let numbers = [("apple", Some("1.0")), ("apple", Some("7"))];
        let vocabulary = Vocabulary::fit(numbers, FitOptions::default()).unwrap();
        assert_eq!(vocabulary.label_number("1.0").as_deref(), Ok("1"));
        assert_eq!(
            vocabulary.label_number("x").unwrap_err(),
            "label `x` is no number, and the vocabulary has no classes"
        );
    }

    #[test]
    fn files_come_back_and_damaged_ones_are_refused() {
        let vocabulary = vocabulary(TermFrequency::Log);
        let mut text = Vec::new();
        vocabulary.write(&mut text).unwrap();
        assert_eq!(Vocabulary::parse(&text).unwrap(), vocabulary);
        let text = String::from_utf8(text).unwrap();
        let cases = [
            (
                "\"format\":1",
                "\"format\":2",
                "vocabulary format 2 is not supported: this version reads format 1",
            ),
            (
                "\"df\":[2,",
                "\"df\":[9,",
                "damaged vocabulary: `apple` stands in 9 of 4 documents",
            ),
            (
                "\"df\":[2,",
                "\"df\":[0,",
                "damaged vocabulary: `apple` stands in 0 of 4 documents",
            ),
            (
                "\"df\":[2,",
                "\"df\":[",
                "damaged vocabulary: 4 terms, but 3 frequencies",
            ),
            (
                "\"cherry\"",
                "\"apple\"",
                "damaged vocabulary: `apple` stands twice",
            ),
        ];
        for (old, new, want) in cases {
            assert!(text.contains(old), "{text}");
            let damaged = text.replace(old, new);
            assert_eq!(Vocabulary::parse(damaged.as_bytes()).unwrap_err(), want);
        }
        assert!(
            Vocabulary::parse(b"{}")
                .unwrap_err()
                .starts_with("not a vocabulary: ")
        );
    }
}
