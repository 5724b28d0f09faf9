//! `rankfold info`.

use std::path::PathBuf;

use clap::Args;
use rankfold::model::{KernelFunction, Knowledge, Mapped, Ranked, Rated};
use rankfold::{Model, Result};
use serde_json::{Value, json};

use crate::output::Output;

/// Show what a model is and how it was made
#[derive(Args)]
#[command(after_help = "Example:\n  rankfold info model.safetensors --json")]
pub struct Info {
    /// The model, or a checkpoint
    model: PathBuf,
}

impl Info {
    pub fn run(self, output: &Output) -> Result<()> {
        let model = Model::load(&self.model)?;
        let card = &model.card;
        let sigma = model
            .singular_values()
            .map_err(|e| e.in_file(&self.model))?;
        let stored = model.storage();
        let shape = stored.shape;
        let steps = model.preprocess.steps;
        let mut json = json!({
            "format": card.format,
            "task": model.task(),
            "learner": card.learner,
            "form": stored.form,
            "shape": [shape.0, shape.1],
            "rank": model.rank(),
            "singular_values": sigma,
            "parameters": stored.parameters,
            "precision": model.precision(),
            "score": card.score.name(),
            "features": model.features.kind(),
            "objects": model.objects.as_ref().map(|objects| objects.features.kind()),
            "vocabulary": model.vocabulary().map(|v| v.len()),
            "preprocess": { "tfidf": steps.tfidf, "standardize": steps.standardize, "normalize": steps.normalize },
            "init": card.init,
            "seed": card.seed,
            "step_size": card.step_size,
            "step_limit": card.step_limit,
            "steps": card.counters.steps,
            "updates": card.counters.updates,
            "refused": card.counters.refused,
            "new_features": card.counters.new_features,
            "seeded": card.counters.seeded,
            "mean_loss": card.counters.mean_loss(),
            "refreshes": stored.refreshes,
            "history": card.history,
        });
        if let Some(inner) = card.inner_steps {
            json["inner_steps"] = json!(inner.count);
            json["inner_size"] = json!(inner.size * card.step_size);
        }
        if let Some(aroma) = card.aroma {
            json["confidence_r"] = json!(card.step_size);
            json["update_on"] = json!(aroma.update_on);
            json["new_covariance"] = json!(aroma.new_covariance);
            json["inverse_diagonal"] = json!(aroma.inverse_diagonal);
            json["variance_scale"] = json!(card.variance_scale);
            json["storage"] = json!(stored.entries);
        }
        if let Knowledge::Ranking(Ranked { prior, rule }) = &model.knowledge {
            json["labels"] = json!(prior.bias.len());
            json["new_labels"] = json!(card.counters.new_object_features);
            json["sampler"] = json!(rule.sampler.name());
            json["gradient"] = json!(rule.gradient.name());
            json["bias"] = json!(rule.bias);
        } else if let Knowledge::Completion(Rated { biases, card }) = &model.knowledge {
            json["solver"] = json!(card.solver);
            json["users"] = json!(shape.0);
            json["items"] = json!(shape.1);
            json["ratings"] = json!(biases.count[0].iter().sum::<u64>());
            json["biases"] = json!(biases.bias.is_some());
            json["mean"] = json!(card.mean);
            json["regularization"] = json!(card.regularization);
            json["penalty_power"] = json!(card.penalty_power);
            json["noise"] = json!(card.noise);
            json["scale"] = match card.scale {
                Some((low, high)) => json!(format!("{low} to {high}")),
                None => json!(null),
            };
        } else if let Knowledge::Recommend(known) = &model.knowledge {
            json["users"] = json!(known.users.len());
            json["items"] = json!(shape.1);
            json["choices"] = json!(known.histories.nnz());
            json["weights"] = json!(known.card.weights.name());
            json["damping"] = json!(known.card.damping);
            json["own_share"] = json!(known.card.own.map_or(0.0, |own| own.share));
            json["half_life"] = json!(known.card.half_life);
            json["liked_from"] = json!(known.card.liked_from);
        } else if model.objects.is_some() {
            json["new_object_features"] = json!(card.counters.new_object_features);
        }
        if let Ok((space, own)) = model.task_parts() {
            json["solver"] = json!(own.solver);
            json["tasks"] = json!(shape.1);
            json["new_tasks"] = json!(card.counters.new_object_features);
            json["rows"] = json!(space.moments.iter().map(|m| m.count).sum::<f64>() as u64);
            json["standardize"] = json!(own.standardize.name());
            json["task_column"] = json!(own.task_column);
            json["target_column"] = json!(own.target_column);
            json["ignored_columns"] = json!(own.ignored_columns.join(", "));
            json["common"] = json!(space.common.is_some());
            json["common_ridge"] = json!(own.common_ridge);
            json["bias_ridge"] = json!(own.prior.bias_ridge);
            json["target_mean"] = json!(own.prior.target_mean);
        }
        if let Knowledge::Kernel(kernel) | Knowledge::Map(Mapped { card: kernel, .. }) =
            &model.knowledge
        {
            json["items"] = json!(shape.0);
            json["map"] = json!(kernel.map);
            json["constraints"] = json!(kernel.constraints);
            json["violated"] = json!(kernel.violated);
            json["cost"] = json!(kernel.cost);
            if let Some(KernelFunction::Gaussian { gamma }) = kernel.function {
                json["gamma"] = json!(gamma);
            }
            if !kernel.map {
                json["alpha"] = json!(kernel.alpha);
                let steps = kernel.preprocess;
                json["preprocess"] = json!({ "tfidf": steps.tfidf, "standardize": steps.standardize, "normalize": steps.normalize });
            }
        }
        if let Some(gossip) = &card.gossip {
            json["agents"] = json!(gossip.agents);
            json["agent"] = json!(gossip.agent);
            json["graph"] = json!(gossip.graph);
            json["schedule"] = json!(gossip.schedule);
            json["rho"] = json!(gossip.rho);
            json["step_a"] = json!(gossip.steps.map(|s| s.0));
            json["step_b"] = json!(gossip.steps.map(|s| s.1));
            json["precondition"] = json!(gossip.precondition);
            json["geometry"] = json!(match gossip.euclidean {
                true => "euclidean",
                false => "grassmann",
            });
            json["slots"] = json!(gossip.slots);
            json["consensus"] = json!(gossip.consensus);
            json["messages"] = json!(gossip.messages);
            json["bytes"] = json!(gossip.bytes);
        }
        if let Some(lambda) = card.regularization {
            json["regularization"] = json!(lambda);
        }
        if let Some(retraction) = card.retraction {
            json["retraction"] = json!(retraction.name());
        }
        if let Some(mean) = model.target_mean() {
            json["target_mean"] = json!(mean);
        }
        let mut text = String::new();
        let shown = json.as_object().into_iter().flatten();
        for (name, value) in shown.filter(|(name, _)| *name != "history" && *name != "format") {
            text += &format!("{name:<16} {}\n", readable(value));
        }
        if let Some(last) = card.history.last() {
            text += &format!(
                "{:<16} {:.4} at step {}\n",
                "last loss", last.loss, last.counters.steps
            );
            for (name, value) in &last.metrics {
                text += &format!("{:<16} {value:.4}\n", format!("last {name}"));
            }
        }
        output.result(&json, text.trim_end())
    }
}

fn readable(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) if values.iter().all(Value::is_u64) => values
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join(" × "),
        Value::Array(values) => {
            let short = values.iter().filter_map(Value::as_f64).map(|v| {
                if v < 1e-3 {
                    format!("{v:.2e}")
                } else {
                    format!("{v:.4}")
                }
            });
            short.collect::<Vec<_>>().join(" ")
        }
        Value::Object(map) => {
            let on = map
                .iter()
                .filter(|(_, v)| v.as_bool() == Some(true))
                .map(|(k, _)| k.as_str());
            let on = on.collect::<Vec<_>>().join(", ");
            if on.is_empty() { "none".into() } else { on }
        }
        Value::Null => "none".into(),
        other => other.to_string(),
    }
}
