//! How sure a model is of its predictions: a variance for each row and each column.
//!
//! The prediction for row i and column j has the variance c (u_i + v_j + σ² p_i q_j): what
//! is not known of the two lines, and noise. u_i = tr(C_i G) is what the covariance C_i of
//! the row makes of a typical column, whose second moments are G, so that two numbers a
//! line are enough. The factor c is set by the errors of the known entries.

/// How sure predictions for the lines of one side are.
#[derive(Debug, Clone, PartialEq)]
pub struct Variances {
    /// What each line adds to the variance of its predictions.
    pub line: Vec<f64>,
    /// What each line multiplies the variance of the noise by.
    pub noise: Vec<f64>,
    /// What a line adds of which nothing is known.
    pub unknown: f64,
}

impl Variances {
    /// The variance that a line adds, and its noise.
    pub fn of(&self, line: Option<u32>) -> (f64, f64) {
        match line {
            Some(i) => (self.line[i as usize], self.noise[i as usize]),
            None => (self.unknown, 1.0),
        }
    }

    /// As many lines as this; nothing is known of new ones.
    pub fn grow(&mut self, lines: usize) {
        self.line.resize(lines, self.unknown);
        self.noise.resize(lines, 1.0);
    }

    /// Another entry of a line of so many numbers, at this variance of the noise: it
    /// tells as much of each of them as entries do in the mean.
    pub fn learned(&mut self, line: usize, numbers: usize, noise: f64) {
        let all = numbers.max(1) as f64 * noise.max(f64::MIN_POSITIVE);
        self.line[line] /= 1.0 + self.line[line] / all;
    }
}

/// How sure a model is of entries that it has not seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sureness {
    /// Of rows and of columns.
    pub sides: [Variances; 2],
    /// c.
    pub scale: f64,
}
