//! How a model does on parts of the data: classes, tasks, and how much is known of a thing.

use crate::Ids;

/// The parts of the data by one view of them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Grouping {
    /// What the parts are by, such as `class`.
    pub by: String,
    /// What each is measured by, such as `rmse`.
    pub metric: String,
    /// What is counted: `queries`, `rows`, `ratings`, `pairs` or `users`.
    pub unit: &'static str,
    /// The baseline that stands beside the model, where there is one.
    pub baseline: Option<String>,
    /// The parts in their order.
    pub groups: Vec<Group>,
}

/// One part.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How many things are in it.
    pub count: usize,
    /// What the model reaches; not a number where it cannot be measured.
    pub value: f64,
    /// What the baseline reaches.
    pub baseline: Option<f64>,
}

impl Grouping {
    /// Parts that are measured by this metric.
    pub fn new(by: &str, metric: &str, unit: &'static str, baseline: Option<&str>) -> Self {
        Grouping {
            by: by.into(),
            metric: metric.into(),
            unit,
            baseline: baseline.map(str::to_owned),
            groups: Vec::new(),
        }
    }

    /// Means over the things of each class, of the model and of the baseline. Things without a
    /// value are not counted.
    pub(crate) fn by_class(
        mut self,
        names: &Ids,
        classes: &[u32],
        model: &[Option<f64>],
        baseline: Option<&[Option<f64>]>,
    ) -> Self {
        let means = |values: &[Option<f64>]| {
            let mut sums = vec![(0.0, 0_usize); names.len()];
            for (&class, value) in classes.iter().zip(values) {
                if let (Some((sum, count)), Some(value)) = (sums.get_mut(class as usize), value) {
                    *sum += value;
                    *count += 1;
                }
            }
            sums
        };
        let (of_model, of_baseline) = (means(model), baseline.map(means));
        for (class, (sum, count)) in of_model.into_iter().enumerate() {
            let mean = |(sum, count): (f64, usize)| sum / count as f64;
            if count > 0 {
                self.groups.push(Group {
                    name: names.get(class as u32).to_owned(),
                    count,
                    value: mean((sum, count)),
                    baseline: of_baseline.as_ref().map(|sums| mean(sums[class])),
                });
            }
        }
        self
    }
}

/// The least counts of parts by how much is known of a thing.
const LEAST: [u64; 11] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// Parts by how much is known of a thing.
pub const COUNTS: usize = LEAST.len();

/// The part of a thing of which so much is known.
pub fn part_of_count(count: u64) -> usize {
    LEAST.partition_point(|&least| least <= count) - 1
}

/// The name of such a part, `10 to 19`.
pub fn name_of_part(part: usize) -> String {
    match (LEAST[part], LEAST.get(part + 1)) {
        (least, Some(&next)) if next == least + 1 => least.to_string(),
        (least, Some(&next)) => format!("{least} to {}", next - 1),
        (least, None) => format!("{least} or more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_is_in_the_part_that_names_it() {
        let cases = [
            (0, "0"),
            (1, "1"),
            (2, "2 to 4"),
            (4, "2 to 4"),
            (5, "5 to 9"),
            (99, "50 to 99"),
            (1000, "1000 or more"),
            (u64::MAX, "1000 or more"),
        ];
        for (count, name) in cases {
            assert_eq!(name_of_part(part_of_count(count)), name, "{count}");
        }
    }

    #[test]
    fn classes_have_means_of_what_is_known() {
        let names: Ids = ["a", "b", "c"].into_iter().map(str::to_owned).collect();
        let model = [Some(1.0), Some(0.5), None, Some(0.25), None];
        let found = Grouping::new("class", "map", "queries", Some("cosine")).by_class(
            &names,
            &[0, 1, 0, 1, 2],
            &model,
            Some(&[Some(0.5); 5]),
        );
        let told: Vec<_> = found
            .groups
            .iter()
            .map(|g| (&g.name[..], g.count, g.value))
            .collect();
        assert_eq!(told, [("a", 1, 1.0), ("b", 2, 0.375)]);
        assert_eq!(found.groups[0].baseline, Some(0.5));
    }
}
