//! Rows of a matrix as groups: W is the image of a stored matrix Θ under the map
//! that mirror descent with ½‖·‖² of the norm (2,s) takes its steps through.
//!
//! Row i of W is (‖θᵢ‖ / ‖Θ‖₂,ₛ)^(s−2) θᵢ: rows that say little are held down, and
//! with s = 2 all are as they are. Squared norms and Σ‖θᵢ‖ˢ are kept, so that a
//! change of one row costs one row.

/// What the rows of Θ weigh.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Groups {
    exponent: f64,
    /// Σ‖θᵢ‖ˢ.
    total: f64,
    /// ‖θᵢ‖².
    pub squares: Vec<f64>,
}

impl Groups {
    pub fn new(exponent: f64, squares: Vec<f64>) -> Self {
        let total = squares.iter().map(|s| s.powf(0.5 * exponent)).sum();
        Groups {
            exponent,
            total,
            squares,
        }
    }

    /// From the parts of a model file, which are not trusted.
    pub fn from_parts(numbers: &[f64], squares: Vec<f64>) -> Option<Self> {
        let (exponent, total) = (*numbers.first()?, *numbers.get(1)?);
        let sound = exponent >= 1.0 && total >= 0.0 && squares.iter().all(|s| *s >= 0.0);
        sound.then_some(Groups {
            exponent,
            total,
            squares,
        })
    }

    /// The exponent and Σ‖θᵢ‖ˢ.
    pub fn numbers(&self) -> [f64; 2] {
        [self.exponent, self.total]
    }

    pub fn exponent(&self) -> f64 {
        self.exponent
    }

    /// (‖θᵢ‖ / ‖Θ‖₂,ₛ)^(s−2).
    pub fn weight(&self, i: usize) -> f64 {
        let square = self.squares[i];
        if square <= 0.0 || self.total <= 0.0 || self.exponent == 2.0 {
            return 1.0;
        }
        let norm = self.total.powf(1.0 / self.exponent);
        (square.sqrt() / norm).powf(self.exponent - 2.0)
    }

    /// Row i has this squared norm from now on.
    pub fn set(&mut self, i: usize, square: f64) {
        let power = |square: f64| square.powf(0.5 * self.exponent);
        // The largest row alone is a lower bound that rounding may not undercut.
        let total = self.total - power(self.squares[i]) + power(square);
        self.total = total.max(power(square));
        self.squares[i] = square;
    }

    /// New rows are zero.
    pub fn grow(&mut self, rows: usize) {
        self.squares.resize(rows.max(self.squares.len()), 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_follow_the_norms_and_the_map_back_undoes_them() {
        let exponent = 3.5;
        let mut groups = Groups::new(exponent, vec![0.0; 4]);
        let norms = [0.0, 0.5, 2.0, 1.5_f64];
        for (i, norm) in norms.iter().enumerate() {
            groups.set(i, 7.0);
            groups.set(i, norm * norm);
        }
        let whole = norms.iter().map(|n| n.powf(exponent)).sum::<f64>();
        let norm = whole.powf(1.0 / exponent);
        for i in 1..4 {
            let want = (norms[i] / norm).powf(exponent - 2.0);
            assert!((groups.weight(i) - want).abs() < 1e-12);
        }
        // Θ → W → Θ, with the dual exponent.
        let squares = (0..4).map(|i| (groups.weight(i) * norms[i]).powi(2));
        let back = Groups::new(exponent / (exponent - 1.0), squares.collect());
        for i in 1..4 {
            assert!((back.weight(i) * groups.weight(i) - 1.0).abs() < 1e-12);
        }
        // With s = 2 nothing is weighed, and zero rows never matter.
        assert_eq!(Groups::new(2.0, vec![3.0, 0.0]).weight(0), 1.0);
        groups.grow(6);
        assert_eq!((groups.weight(5), groups.squares.len()), (1.0, 6));
        assert!(Groups::from_parts(&[0.5, 1.0], vec![]).is_none());
        assert!(Groups::from_parts(&[2.0, 1.0], vec![-1.0]).is_none());
    }
}
