//! The labels of rows by number, whichever file they come from.

use crate::Ids;
use crate::data::Labels;

/// Where the labels in files lead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LabelNames<'a> {
    pub names: &'a Ids,
    /// So many labels, the first ones, are called by number in files.
    pub numbered: usize,
}

impl LabelNames<'_> {
    /// The number of a label as a file calls it.
    pub fn find(self, label: &str) -> Option<u32> {
        match label.parse::<u32>() {
            Ok(number) if self.numbered > 0 => {
                Some(number).filter(|&n| (n as usize) < self.numbered)
            }
            _ => self.names.find(label),
        }
    }
}

/// The labels of each row, rising and each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Positives {
    numbers: Vec<u32>,
    ends: Vec<usize>,
}

impl Positives {
    pub fn push(&mut self, labels: impl Iterator<Item = u32>) {
        let start = self.numbers.len();
        self.numbers.extend(labels);
        self.numbers[start..].sort_unstable();
        let mut end = start;
        for i in start..self.numbers.len() {
            if i == start || self.numbers[i] != self.numbers[i - 1] {
                self.numbers[end] = self.numbers[i];
                end += 1;
            }
        }
        self.numbers.truncate(end);
        self.ends.push(end);
    }

    /// The labels of row i.
    pub fn of(&self, i: usize) -> &[u32] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.numbers[start..self.ends[i]]
    }

    /// The labels of training rows, by the numbers that the file gave them.
    pub fn new(labels: &Labels) -> Self {
        let mut out = Positives::default();
        for i in 0..labels.len() {
            out.push(labels.of(i).iter().copied());
        }
        out
    }

    /// The labels of other rows by known names. Those that are not known get
    /// numbers behind all others; says how many there are.
    pub fn known(labels: &Labels, known: LabelNames<'_>) -> (Self, usize) {
        let find = |name: &str| match labels.numbered {
            true => known.names.find(name),
            false => known.find(name),
        };
        let mut unknown = 0;
        let count = known.names.len() as u32;
        let number = |name: &str| {
            find(name).unwrap_or_else(|| {
                unknown += 1;
                count + unknown - 1
            })
        };
        let numbers: Vec<u32> = labels.names.iter().map(number).collect();
        let mut out = Positives::default();
        for i in 0..labels.len() {
            out.push(labels.of(i).iter().map(|&label| numbers[label as usize]));
        }
        (out, unknown as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_number_or_name() {
        let names: Ids = ["sea", "sky", "7"].iter().collect();
        let by_number = LabelNames {
            names: &names,
            numbered: 2,
        };
        let found = ["1", "sky", "7", "2", "x"].map(|label| by_number.find(label));
        assert_eq!(found, [Some(1), Some(1), None, None, None]);
        let by_name = LabelNames {
            numbered: 0,
            ..by_number
        };
        assert_eq!(["1", "7"].map(|l| by_name.find(l)), [None, Some(2)]);

        let mut labels = Labels::default();
        labels.push(["sky", "odd", "sea"]);
        labels.push([]);
        labels.push(["new", "odd"]);
        let (found, unknown) = Positives::known(&labels, by_name);
        let of = |i| found.of(i).to_vec();
        assert_eq!((of(0), of(1), of(2)), (vec![0, 1, 3], vec![], vec![3, 4]));
        assert_eq!(unknown, 2);
        let mut twice = Positives::default();
        twice.push([5, 1, 5, 1, 3].into_iter());
        assert_eq!(twice.of(0), [1, 3, 5]);
    }
}
