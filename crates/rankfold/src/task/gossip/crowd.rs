//! Agents of either geometry, as a run sees them.

use crate::Result;
use crate::gossip::{Away, Euclidean, Simulation, Status, Work};
use faer::Mat;

/// The agents of a run.
pub(super) enum Crowd<'e, W> {
    /// With subspaces, elsewhere; what they own is known here too.
    Away(Box<Away<'e>>, Vec<W>),
    /// With subspaces.
    Grassmann(Simulation<W>),
    /// With plain matrices.
    Euclidean(Euclidean<W>),
}

impl<W: Work + Clone> Crowd<'_, W> {
    /// One slot, by the schedule.
    pub fn slot(&mut self) -> Result<()> {
        match self {
            Crowd::Away(agents, _) => agents.slot(),
            Crowd::Grassmann(agents) => agents.slot(),
            Crowd::Euclidean(agents) => {
                agents.slot();
                Ok(())
            }
        }
    }

    /// How far they have come.
    pub fn status(&self) -> Status {
        match self {
            Crowd::Away(agents, _) => agents.status(),
            Crowd::Grassmann(agents) => agents.status(),
            Crowd::Euclidean(agents) => agents.status(),
        }
    }

    /// All that they know beside the data.
    pub fn checkpoint(&self) -> Vec<u8> {
        match self {
            Crowd::Away(agents, _) => agents.checkpoint(),
            Crowd::Grassmann(agents) => agents.checkpoint(),
            Crowd::Euclidean(agents) => agents.checkpoint(),
        }
    }

    /// The subspace that the run ends with.
    pub fn mean(&self) -> Result<Mat<f64>> {
        match self {
            Crowd::Away(agents, _) => agents.mean(),
            Crowd::Grassmann(agents) => agents.mean(),
            Crowd::Euclidean(agents) => agents.mean(),
        }
    }

    /// The subspace of each agent.
    pub fn subspaces(&self) -> Result<Vec<Mat<f64>>> {
        match self {
            Crowd::Away(agents, _) => Ok(agents.subspaces()),
            Crowd::Grassmann(agents) => {
                let agents = agents.agents().iter();
                Ok(agents.map(|agent| agent.subspace().clone()).collect())
            }
            Crowd::Euclidean(agents) => agents.subspaces(),
        }
    }

    /// What each agent owns.
    pub fn works(&self) -> Vec<&W> {
        match self {
            Crowd::Away(_, works) => works.iter().collect(),
            Crowd::Grassmann(agents) => agents.agents().iter().map(|a| a.work()).collect(),
            Crowd::Euclidean(agents) => agents.works().iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GossipData, GossipGeometry, GossipInit, GraphShape};
    use crate::Rows;
    use crate::data::{Ratings, TaskRows};
    use crate::gossip::{Schedule, Village};
    use crate::random::normal_at;
    use crate::task::{Gossip, GossipFit, GossipTask, Run, TaskData};

    fn ratings() -> Ratings {
        let rated = |i: u32| {
            let (user, item) = (i * 7 % 13, i * 11 % 9);
            let noise = normal_at(1, 0, u64::from(i), 0);
            (user, item, f64::from(user * item % 5) + 0.3 * noise)
        };
        Ratings::from_entries((0..110).map(rated)).unwrap()
    }

    fn tasks() -> TaskRows {
        let row = |i: usize| -> Vec<f64> { (0..4).map(|j| normal_at(2, 1, i as u64, j)).collect() };
        let rows: Vec<Vec<f64>> = (0..60).map(row).collect();
        let names: Vec<String> = (0..60).map(|i| format!("t{}", i % 7)).collect();
        let target = |(i, x): (usize, &Vec<f64>)| x[i % 7 % 4] - x[1] + (i % 7) as f64;
        let targets = rows.iter().enumerate().map(target).collect();
        TaskRows::new(names, Rows::from_dense(&rows).unwrap(), targets).unwrap()
    }

    fn bytes(found: &GossipFit) -> Vec<Vec<u8>> {
        let models = [&found.fit.model].into_iter().chain(&found.agents);
        models.map(|model| model.to_bytes().unwrap()).collect()
    }

    fn options() -> Vec<Gossip> {
        let usual = Gossip::default().agents(4).rank(2).slots(25).seed(3);
        let usual = usual.regularization(0.05);
        vec![
            usual.clone(),
            usual
                .clone()
                .graph(GraphShape::Ring)
                .init(GossipInit::Random),
            usual
                .clone()
                .schedule(Schedule::Stochastic)
                .init(GossipInit::Shared),
            usual.clone().graph(GraphShape::Star).trust(0.3),
            usual.clone().step_a(0.01).step_b(0.1),
            usual.clone().step_a(0.1).precondition(true),
            usual.agents(2).rank(1).slots(1),
        ]
    }

    #[test]
    fn agents_elsewhere_come_to_the_models_of_agents_here() {
        let (ratings, tasks) = (ratings(), tasks());
        let of_tasks: TaskData<'_> = (&tasks).into();
        for options in options() {
            for completion in [true, false] {
                let (data, options): (GossipData<'_>, Gossip) = match completion {
                    true => ((&ratings).into(), options.clone()),
                    false => (of_tasks.into(), options.clone().task(GossipTask::Multitask)),
                };
                let here = options
                    .fit_agents::<f64>(data.clone(), Run::default())
                    .unwrap();
                for forgetful in [false, true] {
                    let mut village = Village::new(forgetful);
                    let run = Run::default();
                    let away = options.fit_elsewhere::<f64>(data.clone(), &mut village, run);
                    let away = away.unwrap();
                    assert_eq!(bytes(&here), bytes(&away), "{options:?}");
                    assert_eq!(here.distances, away.distances);
                }
            }
        }
    }

    #[test]
    fn parts_and_choices_are_those_of_agents_here() {
        let ratings = ratings();
        let mut data: GossipData<'_> = (&ratings).into();
        data.parts = Some(&[2, 8, 3]);
        let options = Gossip::default().rank(1).slots(6);
        let here = options
            .fit_agents::<f32>(data.clone(), Run::default())
            .unwrap();
        let mut village = Village::new(false);
        let away = options
            .fit_elsewhere::<f32>(data, &mut village, Run::default())
            .unwrap();
        assert_eq!(bytes(&here), bytes(&away));
        assert_eq!(away.agents.len(), 3);
    }

    #[test]
    fn plain_matrices_stay_here() {
        let ratings = ratings();
        let options = Gossip::default()
            .step_a(0.01)
            .geometry(GossipGeometry::Euclidean);
        let mut village = Village::new(false);
        let run = Run::default();
        let error = options.fit_elsewhere::<f32>((&ratings).into(), &mut village, run);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("agents elsewhere have subspaces"), "{error}");
    }
}
