//! Reads the reference cases: a copy in the project, or `$RANKFOLD_GOLDEN`.

use serde_json::Value;
use std::path::PathBuf;

/// One reference case: `params`, `inputs`, `outputs` and its tolerance.
pub struct Golden {
    name: String,
    value: Value,
}

impl Golden {
    pub fn read(name: &str) -> Self {
        let folder = std::env::var_os("RANKFOLD_GOLDEN")
            .map(PathBuf::from)
            .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden"));
        let path = folder.join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|e| panic!("cannot read `{}`: {e}", path.display()));
        Golden {
            name: name.to_owned(),
            value: serde_json::from_str(&text).unwrap(),
        }
    }

    /// The value at a path such as `/inputs/A`.
    #[track_caller]
    pub fn at(&self, path: &str) -> &Value {
        self.value
            .pointer(path)
            .unwrap_or_else(|| panic!("{}: nothing at {path}", self.name))
    }

    #[track_caller]
    pub fn number(&self, path: &str) -> f64 {
        number(self.at(path))
    }

    #[track_caller]
    pub fn vector(&self, path: &str) -> Vec<f64> {
        vector(self.at(path))
    }

    #[track_caller]
    pub fn matrix(&self, path: &str) -> Vec<Vec<f64>> {
        matrix(self.at(path))
    }

    pub fn tolerance(&self) -> f64 {
        self.number("/rel_tol")
    }

    /// `|got − want|_F ≤ rel_tol · max(1, |want|_F)`, the rule of the cases.
    #[track_caller]
    pub fn same(&self, what: &str, got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len(), "{}: size of {what}", self.name);
        let error = got
            .iter()
            .zip(want)
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>()
            .sqrt();
        let norm = want.iter().map(|b| b * b).sum::<f64>().sqrt();
        assert!(
            error <= self.tolerance() * norm.max(1.0),
            "{}: {what} is off by {error:e}",
            self.name
        );
    }
}

#[track_caller]
pub fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[track_caller]
pub fn vector(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}

#[track_caller]
pub fn matrix(value: &Value) -> Vec<Vec<f64>> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(vector)
        .collect()
}
