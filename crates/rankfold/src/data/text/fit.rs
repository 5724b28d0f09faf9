//! Learns a vocabulary from documents, one at a time.
//!
//! Memory: the distinct words, and a counter for each pair of word and label
//! that occurs; the documents are not kept.

use hashbrown::HashMap;

use super::strip::{Strip, strip};
use super::tokens::{Alphabet, TermRules, Tokenizer};
use super::vocabulary::{TermFrequency, Vocabulary};
use crate::data::number::label_name;
use crate::{Error, Ids, Result};

/// How a vocabulary is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// Keep at most so many terms; all by default.
    pub features: Option<usize>,
    /// Keep terms in at least so many documents; 2 by default.
    pub min_df: u32,
    /// How often a term counts; 1 + ln tf by default.
    pub tf: TermFrequency,
    /// Parts of messages to leave out; none by default.
    pub strip: Vec<Strip>,
    /// Leave out terms in more than this share of the documents; none by default.
    pub max_share: Option<f64>,
    /// What terms are; words without English stop words by default.
    pub rules: TermRules,
    /// Which letters words are made of, instead of what `rules` say. By default all letters,
    /// unless only a few documents have other letters than `a` to `z`.
    pub alphabet: Option<Alphabet>,
}

impl Default for FitOptions {
    fn default() -> Self {
        FitOptions {
            features: None,
            min_df: 2,
            tf: TermFrequency::Log,
            strip: Vec::new(),
            max_share: None,
            rules: TermRules::default(),
            alphabet: None,
        }
    }
}

/// Counts words in documents; [`Fitter::finish`] makes the vocabulary.
pub struct Fitter {
    options: FitOptions,
    /// All terms.
    words: Ids,
    /// In how many documents each word stands, and the last of them, in each alphabet.
    df: Vec<[(u32, u32); 2]>,
    labels: Ids,
    /// Documents of each label.
    label_documents: Vec<u32>,
    /// Documents of a label that hold a word, by (word, label), in each alphabet.
    joint: HashMap<(u32, u32), [u32; 2]>,
    documents: u32,
    /// Documents with other letters than `a` to `z`.
    foreign: u32,
    /// Both alphabets are counted until it is known how many documents need the second.
    tokenizers: [Tokenizer; 2],
}

const ALPHABETS: [Alphabet; 2] = [Alphabet::Plain, Alphabet::Unicode];

/// One in so many documents with other letters makes words of them.
const FEW: u32 = 100;

impl Fitter {
    /// No documents yet.
    pub fn new(options: FitOptions) -> Self {
        Fitter {
            tokenizers: ALPHABETS.map(|alphabet| {
                Tokenizer::new(&TermRules {
                    alphabet,
                    ..options.rules.clone()
                })
            }),
            options,
            words: Ids::new(),
            df: Vec::new(),
            labels: Ids::new(),
            label_documents: Vec::new(),
            joint: HashMap::new(),
            documents: 0,
            foreign: 0,
        }
    }

    /// Counts a document with its labels: none, one or several.
    pub fn add<'a>(&mut self, text: &str, labels: impl IntoIterator<Item = &'a str>) {
        self.documents += 1;
        let names = labels.into_iter();
        let mut labels: Vec<u32> = names.map(|label| self.labels.intern(label)).collect();
        labels.sort_unstable();
        labels.dedup();
        self.label_documents.resize(self.labels.len(), 0);
        for &label in &labels {
            self.label_documents[label as usize] += 1;
        }
        let text = strip(text, &self.options.strip);
        let is_foreign = |c: char| !c.is_ascii() && c.is_alphabetic();
        self.foreign += u32::from(text.contains(is_foreign));
        // Which tokenizers are asked, and which alphabets their terms count for.
        let asked: &[(usize, &[usize])] = match self.options.alphabet {
            Some(Alphabet::Plain) => &[(0, &[0])],
            Some(Alphabet::Unicode) => &[(1, &[1])],
            None if text.is_ascii() => &[(0, &[0, 1])],
            None => &[(0, &[0]), (1, &[1])],
        };
        for (tokenizer, sides) in asked {
            self.tokenizers[*tokenizer].for_each(&text, |token| {
                let word = self.words.intern(token);
                if word as usize == self.df.len() {
                    self.df.push([(0, 0); 2]);
                }
                for &side in *sides {
                    let (count, last) = &mut self.df[word as usize][side];
                    if *last == self.documents {
                        continue;
                    }
                    *count += 1;
                    *last = self.documents;
                    for &label in &labels {
                        self.joint.entry((word, label)).or_default()[side] += 1;
                    }
                }
            });
        }
    }

    /// Documents with other letters than `a` to `z`, where these letters end words.
    pub fn foreign(&self) -> Option<u32> {
        let unasked = self.options.alphabet.is_none() && self.side() == 0;
        Some(self.foreign).filter(|count| unasked && *count > 0)
    }

    /// The number of the alphabet that is used.
    fn side(&self) -> usize {
        let many = self.foreign.saturating_mul(FEW) > self.documents;
        match self.options.alphabet {
            Some(Alphabet::Plain) => 0,
            Some(Alphabet::Unicode) => 1,
            None => usize::from(many),
        }
    }

    /// The vocabulary of the documents counted.
    pub fn finish(self) -> Result<Vocabulary> {
        let side = self.side();
        let df = |word: u32| self.df[word as usize][side].0;
        let least = self.options.min_df.max(1);
        let most = match self.options.max_share {
            Some(share) => (share * f64::from(self.documents) + 1e-9).floor() as u32,
            None => u32::MAX,
        };
        let mut terms: Vec<u32> = (0..self.words.len() as u32)
            .filter(|&word| (least..=most).contains(&df(word)))
            .collect();
        if terms.is_empty() {
            let documents = self.documents;
            return Err(Error::input(match self.options.max_share {
                None => format!("no word stands in at least {least} of the {documents} documents"),
                Some(_) => format!(
                    "no word stands in at least {least} and at most {most} of the {documents} documents"
                ),
            }));
        }
        let gain = self.information_gain(side);
        terms.sort_by(|&a, &b| {
            let (df_a, df_b) = (df(a), df(b));
            gain[b as usize]
                .cmp(&gain[a as usize])
                .then(df_b.cmp(&df_a))
                .then_with(|| self.words.get(a).cmp(self.words.get(b)))
        });
        terms.truncate(self.options.features.unwrap_or(usize::MAX));
        Ok(Vocabulary::new(
            terms.iter().map(|&term| self.words.get(term)).collect(),
            terms.iter().map(|&term| df(term)).collect(),
            self.documents,
            self.options.tf,
            self.options.strip.clone(),
            self.classes(),
            TermRules {
                alphabet: ALPHABETS[side],
                ..self.options.rules.clone()
            },
        ))
    }

    /// The labels in alphabetical order, unless all are numbers already.
    fn classes(&self) -> Option<Ids> {
        if self
            .labels
            .iter()
            .all(|l| label_name(l.as_bytes()).is_some())
        {
            return None;
        }
        let mut names: Vec<&str> = self.labels.iter().collect();
        names.sort_unstable();
        Some(names.into_iter().collect())
    }

    /// H(label) − H(label | word present or absent) of each word, over the
    /// documents with labels; one with several labels counts once for each. Rounded to 10⁻¹² nats, so that equal gains are
    /// equal whatever the order of the sums and the logarithm of the machine.
    fn information_gain(&self, side: usize) -> Vec<i64> {
        let x_ln_x = |x: u32| {
            if x == 0 {
                0.0
            } else {
                f64::from(x) * f64::from(x).ln()
            }
        };
        let documents: u32 = self.label_documents.iter().sum();
        let all: f64 = self.label_documents.iter().map(|&n| x_ln_x(n)).sum();
        // Σ over labels of f(present) + f(absent), with f = x ln x: start with
        // every label absent, and correct for those that are not.
        let mut split = vec![all; self.words.len()];
        let mut present = vec![0u32; self.words.len()];
        let joint = self.joint.iter();
        let mut joint: Vec<_> = joint.map(|(key, counts)| (*key, counts[side])).collect();
        joint.sort_unstable();
        for ((word, label), count) in joint {
            let total = self.label_documents[label as usize];
            split[word as usize] += x_ln_x(count) + x_ln_x(total - count) - x_ln_x(total);
            present[word as usize] += count;
        }
        let scale = 1.0 / f64::from(documents.max(1));
        let gain = split.iter().zip(&present).map(|(split, &present)| {
            let entropy = x_ln_x(documents) - all;
            let after = x_ln_x(present) + x_ln_x(documents - present) - split;
            ((entropy - after) * scale * 1e12).round() as i64
        });
        gain.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(documents: &[(&str, Option<&str>)], options: FitOptions) -> Result<Vocabulary> {
        let mut fitter = Fitter::new(options);
        for (text, label) in documents {
            fitter.add(text, *label);
        }
        fitter.finish()
    }

    #[test]
    fn a_few_documents_with_other_letters_change_nothing() {
        let count = |foreign: usize, alphabet| {
            let mut fitter = Fitter::new(FitOptions {
                min_df: 1,
                alphabet,
                ..FitOptions::default()
            });
            (0..200).for_each(|_| fitter.add("apple pie", Some("x")));
            (0..foreign).for_each(|_| fitter.add("Z\u{fc}rich apple", Some("y")));
            let told = fitter.foreign();
            let vocabulary = fitter.finish().unwrap();
            let mut terms: Vec<String> = vocabulary.terms().map(str::to_owned).collect();
            terms.sort();
            (terms.join(" "), told, vocabulary.rules().alphabet)
        };
        assert_eq!(
            count(2, None),
            ("apple pie rich".into(), Some(2), Alphabet::Plain)
        );
        assert_eq!(
            count(3, None),
            ("apple pie z\u{fc}rich".into(), None, Alphabet::Unicode)
        );
        let asked = count(1, Some(Alphabet::Unicode));
        assert_eq!(
            asked,
            ("apple pie z\u{fc}rich".into(), None, Alphabet::Unicode)
        );
        let asked = count(9, Some(Alphabet::Plain));
        assert_eq!(asked, ("apple pie rich".into(), None, Alphabet::Plain));
    }

    #[test]
    fn common_terms_are_left_out_where_that_is_asked() {
        let documents = [("sun moon", None), ("sun star", None), ("sun moon", None)];
        let options = FitOptions {
            max_share: Some(0.67),
            ..FitOptions::default()
        };
        let vocabulary = fit(&documents, options).unwrap();
        assert_eq!(vocabulary.terms().collect::<Vec<_>>(), ["moon"]);
    }

    #[test]
    fn there_are_318_sorted_stop_words() {
        use super::super::stop_words::STOP_WORDS;
        assert!(STOP_WORDS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn terms_come_by_information_gain_then_df_then_alphabet() {
        let documents = [
            ("common the split equal zebra", Some("x")),
            ("common split equal apple zebra apple", Some("x")),
            ("common odd the", Some("y")),
            ("common odd equal apple rare", Some("y")),
        ];
        let vocabulary = fit(&documents, FitOptions::default()).unwrap();
        let terms: Vec<&str> = vocabulary.terms().collect();
        assert_eq!(terms, ["odd", "split", "zebra", "equal", "common", "apple"]);
        let options = FitOptions {
            features: Some(2),
            min_df: 1,
            ..FitOptions::default()
        };
        let vocabulary = fit(&documents, options).unwrap();
        assert_eq!(vocabulary.terms().collect::<Vec<_>>(), ["odd", "split"]);
        let unlabelled = documents.map(|(text, _)| (text, None));
        let vocabulary = fit(&unlabelled, FitOptions::default()).unwrap();
        let terms: Vec<&str> = vocabulary.terms().collect();
        assert_eq!(terms, ["common", "equal", "apple", "odd", "split", "zebra"]);
    }

    #[test]
    fn gain_is_the_difference_of_entropies() {
        let mut fitter = Fitter::new(FitOptions::default());
        for (text, label) in [
            ("word", "a"),
            ("word", "a"),
            ("", "a"),
            ("word", "b"),
            ("", "c"),
        ] {
            fitter.add(text, Some(label));
        }
        fitter.add("word", None);
        let entropy = |counts: &[f64]| -> f64 {
            let n: f64 = counts.iter().sum();
            counts.iter().map(|c| -c / n * (c / n).ln()).sum()
        };
        let want = entropy(&[3.0, 1.0, 1.0])
            - 3.0 / 5.0 * entropy(&[2.0, 1.0])
            - 2.0 / 5.0 * entropy(&[1.0, 1.0]);
        let got = *fitter.information_gain(0).last().unwrap() as f64 * 1e-12;
        assert!((got - want).abs() < 2e-12, "{got} {want}");
    }

    #[test]
    fn too_few_words_are_an_error() {
        let error = fit(&[("one", None), ("the the", None)], FitOptions::default()).unwrap_err();
        assert_eq!(
            error.message,
            "no word stands in at least 2 of the 2 documents"
        );
    }
}
