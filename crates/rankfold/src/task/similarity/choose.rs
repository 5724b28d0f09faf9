//! Start, score and length of a run, chosen on held-out rows where its length is not
//! given: then they are for us to choose, as far as no option says them.
//!
//! A fifth of the rows of each class judges. The starts compete by the mAP of their best
//! score, at the start and after a quarter of the steps; the better one goes on. What
//! comes of it is learned again from all rows.

use super::session::choose_step;
use super::stepper::Stepper;
use super::{Init, Similarity, SimilarityData, evaluate};
use crate::data::Features;
use crate::form::{Form, FormRef};
use crate::model::{ClassScore, Classes, Reading, Scaling, Score};
use crate::online::Rule;
use crate::random::splitmix64;
use crate::sample::Triplets;
use crate::task::inputs::Inputs;
use crate::task::run::{Event, Run, Trial};
use crate::task::start::Start;
use crate::task::triplet::Sides;
use crate::task::{given_up, threads};
use crate::{Real, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

/// The share of rows that judges.
const HELD_OUT: f64 = 0.2;

/// Rows that judge, at least and at most: fewer tell nothing, more cost time.
const FEWEST: usize = 20;
const MOST: usize = 1_500;

/// Judged rows that are enough to choose by, and how often fewer are drawn anew.
const ENOUGH: usize = 400;
const MOST_TIMES: usize = 5;

/// Penalties of a start by ridge regression, as multiples of the mean square of a row.
const PENALTIES: [f64; 3] = [0.1, 1.0, 4.0];

/// Temperatures and mixtures of scores by classes.
const TEMPERATURES: [f64; 4] = [0.05, 0.1, 0.2, 0.4];
const MIXTURES: [f64; 4] = [0.0, 0.02, 0.1, 0.5];

/// Points of a trial at which it is measured, as shares of its steps.
const POINTS: [f64; 3] = [0.25, 0.5, 1.0];

/// Measurements without a gain after which a trial ends.
const PATIENCE: u32 = 2;

/// What a trial must gain in mAP to be preferred to a shorter one.
const GAIN: f64 = 0.001;

/// What a run was not told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(in crate::task) struct Choice {
    pub init: Init,
    /// Of a start by ridge regression.
    pub penalty: f64,
    pub score: Score,
    pub classes: ClassScore,
    /// Triplets of the whole run, where their number was chosen.
    pub steps: Option<u64>,
    /// The step size of the trial, where there was one.
    pub step_size: Option<f64>,
    /// How columns are scaled; as they are where nothing says so.
    pub standardize: Scaling,
}

/// Steps between two questions whether to stop.
const STRIDE: u64 = 1_000;

impl Choice {
    /// The choice in words.
    pub(super) fn said(&self) -> String {
        let steps = match self.steps {
            Some(0) => "no steps".into(),
            Some(steps) => format!("{steps} steps"),
            None => "the usual steps".into(),
        };
        let scaled = match self.standardize {
            Scaling::Global => ", columns standardized",
            _ => "",
        };
        format!(
            "chosen on held-out rows: start `{}`, {steps}, score `{}`{scaled}",
            self.init.name(),
            self.score.name()
        )
    }

    /// What was tried, and what came of it.
    fn told(&self, map: f64) -> Trial {
        let mut settings = Map::new();
        settings.insert("init".into(), json!(self.init.name()));
        if self.init == Init::Ridge {
            settings.insert("penalty".into(), json!(self.penalty));
        }
        settings.insert("score".into(), json!(self.score.name()));
        if self.standardize != Scaling::Auto {
            settings.insert("standardize".into(), json!(self.standardize.name()));
        }
        Trial {
            settings,
            metric: "map".into(),
            value: Some(map).filter(|map| map.is_finite()),
            steps: self.steps.unwrap_or(0),
        }
    }
}

impl Similarity {
    /// What is taken where nothing can be tried.
    pub(super) fn usual(&self) -> Choice {
        Choice {
            init: self.init_or_default(),
            penalty: 1.0,
            score: self.score_or_default(),
            classes: ClassScore::default(),
            steps: None,
            step_size: None,
            standardize: self.standardize,
        }
    }

    /// Chooses what is not given, with the trials that led to it: none where nothing is
    /// open, or where there are too few rows to tell.
    pub(super) fn choose<R: Real>(
        &self,
        data: &SimilarityData<'_, R>,
        start: Option<&Start>,
        run: &mut Run<'_>,
    ) -> Result<(Choice, Vec<Trial>)> {
        let mut usual = self.usual();
        if let Some(start) = start {
            // Rows are scaled as the model does, where nothing else is asked for.
            usual.standardize = start.scaling(self.standardize);
            start.steps(self.weight, self.normalize, usual.standardize)?;
        }
        let open = self.steps.is_none() && self.epochs.is_none() && !self.as_published;
        let by_classes = data.triplets.is_none() && data.data.objects.is_none();
        let starts = [Rule::LoretaPsd, Rule::Loreta].contains(&self.rule());
        // Rows that are held out for the whole run are held out here as well.
        let fraction = self.valid_fraction.max(HELD_OUT);
        let judges = (data.data.rows.rows.len() as f64 * fraction) as usize;
        if !(open && by_classes && starts) || judges < FEWEST {
            return Ok((usual, Vec::new()));
        }
        // Columns of a table may have any size; entries of sparse rows are on one scale.
        let table = matches!(data.data.rows.features, Features::Columns(_));
        let scalings = match usual.standardize {
            Scaling::Auto if table => vec![Scaling::None, Scaling::Global],
            given => vec![given],
        };
        // Few rows judge again and again, others each time.
        let times = match self.valid_fraction > 0.0 {
            true => 1,
            false => ENOUGH.div_ceil(judges).min(MOST_TIMES) as u64,
        };
        let mut best = (usual, f64::NEG_INFINITY);
        let mut trials = Vec::new();
        for standardize in scalings {
            let inner = |time: u64| Similarity {
                valid_fraction: fraction,
                patience: None,
                standardize,
                seed: if time == 0 {
                    self.seed
                } else {
                    splitmix64(self.seed ^ time)
                },
                ..self.clone()
            };
            let inner: Vec<Similarity> = (0..times).map(inner).collect();
            let Some((choice, map)) =
                self.choose_scaled((&inner, start), data, run, &mut trials)?
            else {
                continue;
            };
            if map > best.1 + GAIN {
                best = (choice, map);
            }
        }
        Ok((best.0, trials))
    }

    /// The same with the scaling and the seeds of `inner`, and the mAP of what was chosen;
    /// `None` where nothing could be tried.
    fn choose_scaled<R: Real>(
        &self,
        (inner, start): (&[Similarity], Option<&Start>),
        data: &SimilarityData<'_, R>,
        run: &mut Run<'_>,
        trials: &mut Vec<Trial>,
    ) -> Result<Option<(Choice, f64)>> {
        let never = || false;
        let stop = run.stop().unwrap_or(&never);
        let mut splits = Vec::new();
        for options in inner {
            let alone = SimilarityData {
                valid: None,
                ..data.clone()
            };
            // Where the rows that are left make no triplets or no queries, nothing is tried.
            match Inputs::new(options, alone) {
                Ok(inputs) => splits.push(inputs),
                Err(_) => return Ok(None),
            }
        }
        let mut judges = Vec::new();
        for inputs in &splits {
            match Judge::new(self, inputs, stop)? {
                Some(judge) => judges.push(judge),
                None => return Ok(None),
            }
        }
        let steps = splits[0].usual_steps();
        let mut best: Option<(Choice, Vec<Form<R>>, f64)> = None;
        // Says whether it is the best so far.
        let mut consider = |choice: Choice, forms: &[FormRef<'_, R>], found: Measured| {
            let choice = Choice {
                score: found.score,
                standardize: inner[0].standardize,
                ..choice
            };
            trials.push(choice.told(found.map));
            let better = best.as_ref().is_none_or(|(.., map)| found.map > map + GAIN);
            if better {
                let forms = forms.iter().map(|form| form.to_form()).collect();
                best = Some((choice, forms, found.map));
            }
            better
        };
        let mut contests = Vec::new();
        for (choice, forms, found) in self.starts((inner, start), &splits, &judges)? {
            let mut runs: Vec<Running<R>> = Vec::new();
            for ((form, options), inputs) in forms.into_iter().zip(inner).zip(&splits) {
                // One split is enough for the step: its trials cost more than all else.
                let size = runs.first().map(|run| run.stepper.step.size);
                let size = size.or(options.step_size);
                runs.push(Running::new(
                    options,
                    inputs,
                    form,
                    steps,
                    (choice.init, size),
                )?);
            }
            let step_size = Some(runs[0].stepper.step.size);
            let contest = Contest {
                choice: Choice {
                    step_size,
                    ..choice
                },
                map: found.map,
                runs,
            };
            consider(contest.choice, &contest.forms(), found);
            contests.push(contest);
        }
        let mut without_gain = 0;
        for share in POINTS {
            let until = (steps as f64 * share) as u64;
            for contest in &mut contests {
                for (running, inputs) in contest.runs.iter_mut().zip(&splits) {
                    while running.done < until {
                        running.advance(inputs.sides(), until);
                        let done = running.done;
                        if !run.tell(&Event::Progress { done, total: steps }) {
                            return Err(given_up());
                        }
                    }
                }
                let Some(found) = measure(&judges, &contest.forms())? else {
                    continue;
                };
                contest.map = found.map;
                let choice = Choice {
                    steps: Some(contest.runs[0].done),
                    ..contest.choice
                };
                let gained = consider(choice, &contest.forms(), found);
                without_gain = if gained { 0 } else { without_gain + 1 };
            }
            // The best start goes on alone, as long as it gains.
            contests.sort_by(|a, b| b.map.total_cmp(&a.map));
            contests.truncate(1);
            if without_gain > PATIENCE {
                break;
            }
        }
        let Some((mut choice, forms, map)) = best else {
            return Ok(None);
        };
        if choice.score == Score::Classes {
            let forms: Vec<FormRef<'_, R>> = forms.iter().map(Form::view).collect();
            choice.classes = compared(&judges, &forms)?;
        }
        Ok(Some((choice, map)))
    }

    /// The starts that compete, measured: the best one by ridge regression, and the usual
    /// one.
    fn starts<R: Real>(
        &self,
        (inner, start): (&[Similarity], Option<&Start>),
        splits: &[Inputs<'_, R>],
        judges: &[Judge<'_, '_, R>],
    ) -> Result<Vec<Started<R>>> {
        let at_start = Choice {
            steps: Some(0),
            ..self.usual()
        };
        let forms = |choice: &Choice| -> Result<Vec<Form<R>>> {
            let pairs = inner.iter().zip(splits);
            pairs
                .map(|(options, inputs)| Ok(options.start(inputs, choice, start)?.0))
                .collect()
        };
        let measured = |forms: &[Form<R>]| {
            let forms: Vec<FormRef<'_, R>> = forms.iter().map(Form::view).collect();
            measure(judges, &forms)
        };
        let mut starts = Vec::new();
        if self.init.is_none_or(|init| init == Init::Ridge) {
            let mut kept: Option<Started<R>> = None;
            for penalty in PENALTIES {
                let choice = Choice {
                    init: Init::Ridge,
                    penalty,
                    ..at_start
                };
                // Classes that no feature tells apart have no such start.
                let Ok(forms) = forms(&choice) else {
                    continue;
                };
                let Some(found) = measured(&forms)? else {
                    continue;
                };
                let better = |kept: &Started<R>| found.map > kept.2.map;
                if kept.as_ref().is_none_or(better) {
                    kept = Some((choice, forms, found));
                }
            }
            starts.extend(kept);
        }
        if self.init != Some(Init::Ridge) {
            let forms = forms(&at_start)?;
            if let Some(found) = measured(&forms)? {
                starts.push((at_start, forms, found));
            }
        }
        Ok(starts)
    }
}

/// The mean over splits of the better of two scores; `None` where a form cannot be
/// measured.
fn measure<R: Real>(
    judges: &[Judge<'_, '_, R>],
    forms: &[FormRef<'_, R>],
) -> Result<Option<Measured>> {
    let share = 1.0 / judges.len() as f64;
    let mut sums = [0.0; 2];
    for (judge, form) in judges.iter().zip(forms) {
        let Some(found) = judge.measure(*form)? else {
            return Ok(None);
        };
        sums.iter_mut()
            .zip(found)
            .for_each(|(sum, map)| *sum += share * map);
    }
    let [plain, classes] = sums;
    Ok(Some(
        match classes > plain + GAIN || plain == f64::NEG_INFINITY {
            true => Measured {
                map: classes,
                score: Score::Classes,
            },
            false => Measured {
                map: plain,
                score: judges[0].options.score_or_default(),
            },
        },
    ))
}

/// The temperature with the best mAP, then the mixture that goes with it.
fn compared<R: Real>(judges: &[Judge<'_, '_, R>], forms: &[FormRef<'_, R>]) -> Result<ClassScore> {
    let mut best = (ClassScore::default(), f64::NEG_INFINITY);
    let consider = |best: (ClassScore, f64), score: ClassScore| -> Result<(ClassScore, f64)> {
        let mut map = 0.0;
        for (judge, form) in judges.iter().zip(forms) {
            map += judge.by_classes(*form, score)?;
        }
        Ok(if map > best.1 { (score, map) } else { best })
    };
    for temperature in TEMPERATURES {
        let usual = ClassScore::default();
        best = consider(
            best,
            ClassScore {
                temperature,
                ..usual
            },
        )?;
    }
    for mixture in MIXTURES {
        best = consider(best, ClassScore { mixture, ..best.0 })?;
    }
    Ok(best.0)
}

/// What competes: a choice, its forms on all splits, and how good they are.
type Started<R> = (Choice, Vec<Form<R>>, Measured);

/// A start with its runs, one for each split.
struct Contest<R: Real> {
    choice: Choice,
    runs: Vec<Running<R>>,
    map: f64,
}

impl<R: Real> Contest<R> {
    fn forms(&self) -> Vec<FormRef<'_, R>> {
        self.runs
            .iter()
            .map(|run| run.stepper.learner.form())
            .collect()
    }
}

/// A run that is tried.
struct Running<R: Real> {
    stepper: Stepper<R>,
    source: Triplets,
    done: u64,
}

impl<R: Real> Running<R> {
    fn new(
        options: &Similarity,
        inputs: &Inputs<'_, R>,
        form: Form<R>,
        steps: u64,
        (init, size): (Init, Option<f64>),
    ) -> Result<Self> {
        let mut stepper = Stepper::new(options, form, 0, None)?;
        stepper.step.size = match size {
            Some(size) => size,
            None => choose_step(options, inputs, &stepper, steps, init)?.0,
        };
        Ok(Running {
            stepper,
            source: inputs.triplets.clone(),
            done: 0,
        })
    }

    /// Steps on, for a while.
    fn advance(&mut self, sides: Sides<'_, R>, until: u64) {
        let pause = until.min(self.done + STRIDE);
        while self.done < pause {
            self.done += self.stepper.take(sides, &mut self.source, self.done).0;
        }
    }
}

/// A form that was measured, and the score that is best for it.
struct Measured {
    map: f64,
    score: Score,
}

/// Held-out rows that judge forms.
struct Judge<'a, 'd, R: Real> {
    options: &'a Similarity,
    inputs: &'a Inputs<'d, R>,
    /// The classes of the rows that are learned from, where they may be scored by.
    classes: Option<Classes>,
    members: Vec<u32>,
    known: Vec<u32>,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl<'a, 'd, R: Real> Judge<'a, 'd, R> {
    /// `None` where too few rows are left to judge.
    fn new(
        options: &'a Similarity,
        inputs: &'a Inputs<'d, R>,
        stop: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Option<Self>> {
        let Some(valid) = &inputs.validation else {
            return Ok(None);
        };
        let every = valid.members.len().div_ceil(MOST).max(1);
        let by_classes = options.score.is_none_or(|score| score == Score::Classes);
        let classes = match by_classes {
            true => inputs.classes()?,
            false => None,
        };
        Ok((valid.members.len() >= FEWEST).then(|| Judge {
            options,
            inputs,
            classes,
            members: valid.members.iter().copied().step_by(every).collect(),
            known: valid.classes.iter().copied().step_by(every).collect(),
            stop,
        }))
    }

    /// The mAP of the usual score, and of that by classes; those that are not asked for
    /// are minus infinity. `None` for a form that cannot be measured.
    fn measure(&self, form: FormRef<'_, R>) -> Result<Option<[f64; 2]>> {
        if form.gauge().is_none() {
            return Ok(None);
        }
        let mut found = [f64::NEG_INFINITY; 2];
        if self.options.score != Some(Score::Classes) {
            found[0] = self.map(form, self.options.score_or_default().into())?;
        }
        if self.classes.is_some() {
            found[1] = self.by_classes(form, ClassScore::default())?;
        }
        Ok(Some(found))
    }

    fn map(&self, form: FormRef<'_, R>, reading: Reading<'_>) -> Result<f64> {
        let (rows, threads) = (&self.inputs.rows.rows, threads(self.options.threads));
        let (members, known) = (&self.members, &self.known);
        let go_on = |_| !(self.stop)();
        let found = evaluate(form, rows, members, known, reading, threads, &go_on)?;
        Ok(found.ok_or_else(given_up)?.map)
    }

    fn by_classes(&self, form: FormRef<'_, R>, score: ClassScore) -> Result<f64> {
        let mut classes = self.classes.clone().expect("asked where there are some");
        classes.score = score;
        let reading = Reading {
            score: Score::Classes,
            classes: Some(&classes),
        };
        self.map(form, reading)
    }
}
