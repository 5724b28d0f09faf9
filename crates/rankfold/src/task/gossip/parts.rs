//! Data that comes in one part for each agent, as one data set.

use crate::batch::Part;
use crate::data::{FeatureMap, Ratings, TaskRows};
use crate::{Error, Ids, Result, Rows};
use std::ops::Range;

/// The users or tasks of each agent, by the number of the last one and one more.
#[derive(Debug, Clone)]
pub(super) struct Division(Vec<usize>);

impl Division {
    /// So many users or tasks for each agent, or as even as they can be.
    pub fn new(agents: usize, count: usize, parts: Option<&[usize]>) -> Self {
        let mut end = 0;
        match parts {
            Some(parts) => {
                let ends = parts.iter().map(|part| {
                    end += part;
                    end
                });
                Division(ends.collect())
            }
            None => Division((1..=agents).map(|i| i * count / agents).collect()),
        }
    }

    /// What agent `i` owns.
    pub fn share(&self, i: usize) -> Range<usize> {
        i.checked_sub(1).map_or(0, |before| self.0[before])..self.0[i]
    }
}

/// Ratings of several owners as one data set, and how many users each of them has. An error
/// names the part and the user, where two have the same.
pub fn join_ratings(parts: Vec<Ratings>) -> Result<(Ratings, Vec<usize>)> {
    let (mut users, mut items, mut entries) = (Ids::new(), Ids::new(), Vec::new());
    let (mut counts, mut repeated) = (Vec::new(), 0);
    for (number, part) in parts.iter().enumerate() {
        let first = users.len();
        for name in part.users.iter() {
            if (users.intern(name) as usize) < first {
                return Err(Error::input(format!(
                    "user `{name}` of part {} is in an earlier one too: each agent has users of \
                     its own",
                    number + 1
                )));
            }
        }
        let places: Vec<u32> = part.items.iter().map(|name| items.intern(name)).collect();
        let rows = part.entries.part(Part::All).rows;
        for i in 0..rows.len() {
            let (index, value) = rows.line(i);
            let user = (first + i) as u32;
            let entry = |(&j, &y): (&u32, &f64)| (user, places[j as usize], y);
            entries.extend(index.iter().zip(value).map(entry));
        }
        counts.push(part.users.len());
        repeated += part.repeated;
    }
    let ratings = Ratings::new(users, items, entries)?;
    Ok((
        Ratings {
            repeated,
            ..ratings
        },
        counts,
    ))
}

/// The same for rows of tasks.
pub fn join_tasks(parts: Vec<TaskRows>) -> Result<(TaskRows, Vec<usize>)> {
    let mut features = Ids::new();
    for part in &parts {
        part.features
            .iter()
            .for_each(|name| _ = features.intern(name));
    }
    let mut out = TaskRows {
        names: Ids::new(),
        features: features.clone(),
        task: Vec::new(),
        rows: Rows::new(),
        targets: Vec::new(),
        table: parts.iter().any(|part| part.table),
    };
    let mut counts = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let first = out.names.len();
        for name in part.names.iter() {
            if (out.names.intern(name) as usize) < first {
                return Err(Error::input(format!(
                    "task `{name}` of part {} is in an earlier one too: each agent has tasks of \
                     its own",
                    number + 1
                )));
            }
        }
        let mut map = FeatureMap::new(&features, &part.features, part.table)?;
        for i in 0..part.len() {
            out.rows.push(map.align(part.rows.row(i), &part.features));
            out.task.push(first as u32 + part.task[i]);
            out.targets.push(part.targets[i]);
        }
        counts.push(part.names.len());
    }
    Ok((out, counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_users() {
        let part =
            |entries: &[(&str, &str, f64)]| Ratings::from_entries(entries.iter().copied()).unwrap();
        let one = part(&[("ann", "x", 1.0), ("bob", "y", 2.0)]);
        let two = part(&[("cid", "y", 3.0), ("cid", "z", 4.0)]);
        let (both, counts) = join_ratings(vec![one.clone(), two]).unwrap();
        assert_eq!((both.users.len(), both.items.len()), (3, 3));
        assert_eq!(counts, [2, 1]);
        let line = both.entries.part(Part::All).rows.line(2);
        assert_eq!((line.0, line.1), (&[1, 2][..], &[3.0, 4.0][..]));
        let same = join_ratings(vec![one.clone(), one]).unwrap_err();
        assert!(same.message.starts_with("user `ann` of part 2"), "{same}");
        let division = Division::new(2, 3, Some(&counts));
        assert_eq!([division.share(0), division.share(1)], [0..2, 2..3]);
        let even = Division::new(3, 7, None);
        assert_eq!(
            [even.share(0), even.share(1), even.share(2)],
            [0..2, 2..4, 4..7]
        );
    }
}
