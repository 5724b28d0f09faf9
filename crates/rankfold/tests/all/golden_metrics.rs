//! The metrics against the reference cases.

use crate::golden::{Golden, number, vector};
use rankfold::eval::metrics::{
    Points, average_precision, knn_error, nmi, nmse, precision_at, rmse,
};
use serde_json::Value;

fn integers(value: &Value) -> Vec<u32> {
    vector(value).into_iter().map(|v| v as u32).collect()
}

/// The ranking metrics of one list: average precision, then precision at each k.
fn ranking(case: &Value, k: &[u32]) -> Vec<f64> {
    let scores = vector(&case["scores"]);
    let relevant: Vec<bool> = integers(&case["relevant"]).iter().map(|&r| r > 0).collect();
    let precisions = k
        .iter()
        .map(|&k| precision_at(k as usize, &scores, &relevant));
    std::iter::once(average_precision(&scores, &relevant))
        .chain(precisions)
        .collect()
}

fn expected(case: &Value) -> Vec<f64> {
    let precisions = vector(&case["p_at"]);
    std::iter::once(number(&case["ap"]))
        .chain(precisions)
        .collect()
}

#[test]
fn golden_metrics() {
    let golden = Golden::read("metrics");
    let (inputs, outputs) = (golden.at("/inputs"), golden.at("/outputs"));
    let k = integers(golden.at("/params/k"));
    golden.same("ranking", &ranking(inputs, &k), &expected(outputs));

    let (y_pred, y_true) = (
        golden.vector("/inputs/y_pred"),
        golden.vector("/inputs/y_true"),
    );
    let nmi = nmi(&integers(&inputs["clusters"]), &integers(&inputs["labels"]));
    for (name, got) in [
        ("rmse", rmse(&y_pred, &y_true)),
        ("nmse", nmse(&y_pred, &y_true)),
        ("nmi", nmi),
    ] {
        golden.same(name, &[got], &[number(&outputs[name])]);
    }

    let g = golden.matrix("/inputs/G");
    let project = |path: &str| -> Vec<f64> {
        let points = golden.matrix(path);
        let coordinates = |x: Vec<f64>| -> Vec<f64> {
            let column = |j: usize| x.iter().zip(&g).map(|(x, g)| x * g[j]).sum();
            (0..g[0].len()).map(column).collect()
        };
        points.into_iter().flat_map(coordinates).collect()
    };
    let (train, test) = (project("/inputs/Xtr"), project("/inputs/Xte"));
    let (train_labels, test_labels) = (integers(&inputs["ytr"]), integers(&inputs["yte"]));
    let points = |coordinates, labels| Points {
        coordinates,
        dimension: g[0].len(),
        labels,
    };
    let error = knn_error(
        5,
        points(&train, &train_labels),
        points(&test, &test_labels),
    );
    golden.same("knn_error", &[error], &[number(&outputs["knn_error"])]);
}

#[test]
fn golden_metrics_ties() {
    let golden = Golden::read("metrics_ties");
    let k = integers(golden.at("/params/k"));
    let (inputs, outputs) = (golden.at("/inputs/cases"), golden.at("/outputs/cases"));
    let (inputs, outputs) = (inputs.as_array().unwrap(), outputs.as_array().unwrap());
    assert_eq!(inputs.len(), outputs.len());
    for (input, output) in inputs.iter().zip(outputs) {
        golden.same("ranking", &ranking(input, &k), &expected(output));
    }
}
