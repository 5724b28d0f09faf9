//! The rank as an option: a number, or what does best on held-out training data.

use crate::options::{Kind, OptionValue};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The rank of W that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rank {
    /// This one.
    Given(usize),
    /// Chosen.
    Auto(Auto),
}

/// The word for a rank that is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Auto {
    /// On held-out training data.
    #[serde(rename = "auto")]
    Auto,
}

impl Rank {
    /// To be chosen.
    pub const AUTO: Rank = Rank::Auto(Auto::Auto);

    /// The rank, where it is given.
    pub fn given(self) -> Option<usize> {
        match self {
            Rank::Given(rank) => Some(rank),
            Rank::Auto(_) => None,
        }
    }

    /// The rank, or this one where it is to be chosen, lowered to the features. A given rank
    /// above them is an error.
    pub(super) fn or_usual(self, usual: usize, features: usize) -> Result<usize> {
        let k = self.given().unwrap_or(usual.min(features).max(1));
        match k <= features {
            true => Ok(k),
            false => Err(Error::option(
                "rank",
                format!("is {k}, above n_features = {features}"),
            )),
        }
    }

    /// The rank, or this one where it is to be chosen and nothing can be tried, lowered to
    /// the features and the labels. A given rank above either is an error.
    pub(super) fn or(self, rank: usize, features: usize, labels: usize) -> Result<usize> {
        let Some(k) = self.given() else {
            return match features {
                0 => Err(Error::input("the rows have no features")),
                _ => Ok(rank.min(features).min(labels).max(1)),
            };
        };
        let error = |message: String| Err(Error::option("rank", message));
        if k > features {
            return error(format!("is {k}, above n_features = {features}"));
        }
        match k > labels {
            true => error(format!("is {k}, above the number of labels, {labels}")),
            false => Ok(k),
        }
    }
}

impl OptionValue for Rank {
    type Argument = usize;
    const KIND: Kind = Kind::Text("K or auto");
    fn from_argument(rank: usize) -> Self {
        Rank::Given(rank)
    }
    fn parse(text: &str) -> std::result::Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Rank::AUTO),
            text => text
                .parse()
                .map(Rank::Given)
                .map_err(|_| "a whole number or `auto`".into()),
        }
    }
    fn show(&self) -> Option<String> {
        Some(match self {
            Rank::Given(rank) => rank.to_string(),
            Rank::Auto(_) => "auto".into(),
        })
    }
    fn number(&self) -> Option<f64> {
        self.given().map(|rank| rank as f64)
    }
}
