//! How long a run will take, by how fast its first steps were.

/// Seconds that are measured before anything is said.
const MEASURED: f64 = 5.0;

/// Runs that end within so many seconds are not worth a word.
const SHORT: f64 = 180.0;

/// How fast a run goes; it is told once.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Seconds and steps where the measurement began.
    start: Option<(f64, u64)>,
    last: u64,
    told: bool,
}

impl Pace {
    /// Takes note of progress. Gives the words for a run that is long, as soon as that is
    /// known; `unit` is what its length is counted in.
    pub fn see(&mut self, seconds: f64, (done, total): (u64, u64), unit: &str) -> Option<String> {
        let last = std::mem::replace(&mut self.last, done);
        let (begun, before) = match self.start {
            // A trial that begins, or the run after them, is measured anew.
            Some((_, before)) if done > before && done >= last => self.start?,
            _ => {
                self.start = Some((seconds, done));
                return None;
            }
        };
        let passed = seconds - begun;
        if self.told || passed < MEASURED {
            return None;
        }
        self.told = true;
        let per_second = (done - before) as f64 / passed;
        let rest = total.saturating_sub(done) as f64 / per_second;
        if rest < SHORT {
            return None;
        }
        // A batch solver may end earlier, because it has converged.
        let most = if unit == "steps" { "about" } else { "up to" };
        let steps = match before {
            0 => grouped(total),
            _ => format!("the other {}", grouped(total - before)),
        };
        let each = match per_second >= 1.0 {
            true => format!("{} {unit}/s", rounded(per_second)),
            false => format!("{} s each", rounded(1.0 / per_second)),
        };
        Some(format!(
            "{most} {} for {steps} {unit} at {each}",
            duration(passed + rest)
        ))
    }
}

/// Two digits that mean something.
fn rounded(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.1}"),
        v if v < 1000.0 => format!("{v:.0}"),
        v => grouped((v / 100.0).round() as u64 * 100),
    }
}

fn duration(seconds: f64) -> String {
    match seconds / 60.0 {
        minutes if minutes < 90.0 => format!("{minutes:.0} min"),
        minutes if minutes < 48.0 * 60.0 => format!("{:.1} h", minutes / 60.0),
        minutes => format!("{:.1} days", minutes / 1440.0),
    }
}

/// A number with a comma between each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Event, Run};
    use std::cell::Cell;

    /// What is told of a run in which a step takes so long.
    fn told(each: f64, total: u64, unit: &str) -> Option<String> {
        let mut pace = Pace::default();
        let seen = |done: u64| (30.0 + each * done as f64, (done, total));
        let mut words = (0..=total.min(5_000)).filter_map(|done| {
            let (seconds, progress) = seen(done);
            pace.see(seconds, progress, unit)
        });
        let first = words.next();
        assert_eq!(words.next(), None, "it is told once");
        first
    }

    #[test]
    fn long_runs_are_told_and_short_ones_are_not() {
        let want = "about 7.7 h for 500,000 steps at 18 steps/s";
        assert_eq!(told(1.0 / 18.0, 500_000, "steps").as_deref(), Some(want));
        let want = "up to 27 min for 200 iterations at 8.0 s each";
        assert_eq!(told(8.0, 200, "iterations").as_deref(), Some(want));
        let want = "about 3.0 days for 26,000,000 steps at 100 steps/s";
        assert_eq!(told(0.01, 26_000_000, "steps").as_deref(), Some(want));
        assert_eq!(told(1e-5, 500_000, "steps"), None);
        assert_eq!(told(1.0, 100, "steps"), None);
    }

    #[test]
    fn a_run_tells_it_as_a_note() {
        let (seconds, mut notes) = (Cell::new(0.0), Vec::new());
        let mut run = Run::default()
            .observed(|event| {
                notes.extend(match event {
                    Event::Note(text) => Some(text.clone()),
                    _ => None,
                });
                true
            })
            .timed_by(|| seconds.get());
        for done in 0..20 {
            seconds.set(done as f64);
            let total = 10_000;
            assert!(run.tell(&Event::Progress { done, total }));
        }
        drop(run);
        assert_eq!(notes, ["about 2.8 h for 10,000 steps at 1.0 steps/s"]);
    }

    #[test]
    fn trials_before_the_first_step_do_not_count() {
        let mut pace = Pace::default();
        for seconds in 0..600 {
            assert_eq!(pace.see(f64::from(seconds), (0, 1000), "steps"), None);
        }
        let words = pace.see(609.0, (10, 1000), "steps");
        assert_eq!(
            words.as_deref(),
            Some("about 17 min for 1,000 steps at 1.0 steps/s")
        );
        // Trials that take turns, a second a step, and then the run.
        let mut turns = Pace::default();
        for at in 0..40 {
            assert_eq!(turns.see(at as f64, (10 + at % 4, 1000), "steps"), None);
        }
        let run = (0..9).filter_map(|done| turns.see((50 + done) as f64, (done, 1000), "steps"));
        let told: Vec<String> = run.collect();
        assert_eq!(told, ["about 17 min for 1,000 steps at 1.0 steps/s"]);
        let mut resumed = Pace::default();
        resumed.see(0.0, (400, 1000), "steps");
        let words = resumed.see(10.0, (410, 1000), "steps");
        let want = "about 10 min for the other 600 steps at 1.0 steps/s";
        assert_eq!(words.as_deref(), Some(want));
    }
}
