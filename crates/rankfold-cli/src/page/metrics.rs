//! Metrics in words: what a number means, and whether more is better.

/// What a metric is called among people, and what it means.
pub fn words(name: &str) -> (String, &'static str) {
    let (base, at) = match name.rsplit_once("_at_") {
        Some((base, at)) => (base, format!("@{at}")),
        None => (name, String::new()),
    };
    let (called, meaning) = match base {
        "map" => (
            "mAP",
            "mean average precision: how far up the whole list the right ones stand",
        ),
        "precision" => ("precision", "share of right ones among the first"),
        "recall" => (
            "recall",
            "share of what is looked for that is among the first",
        ),
        "ndcg" => (
            "NDCG",
            "gain of what is found among the first, as a share of the best possible",
        ),
        "hit_rate" => (
            "hit rate",
            "how often at least one of the first is looked for",
        ),
        "coverage" => ("coverage", "share of all items that are in any list"),
        "auc" => (
            "AUC",
            "how often what is looked for stands before what is not",
        ),
        "rmse" => (
            "RMSE",
            "root of the mean squared error, in the unit of what is predicted",
        ),
        "mae" => ("mean absolute error", "in the unit of what is predicted"),
        "nmse" => (
            "NMSE",
            "squared error as a share of the variance of a task, mean over tasks",
        ),
        "knn_error" => (
            "k-NN error",
            "share of rows whose nearest vote for another class",
        ),
        "disorder" => (
            "disorder",
            "k-NN error, and the share of strangers among the nearest rows",
        ),
        "nmi" => ("NMI", "how well clusters agree with labels, from 0 to 1"),
        "consensus" => (
            "distance of neighbors",
            "largest distance of the subspaces of two neighbors, in radians",
        ),
        "cost" => ("cost", "what is made small"),
        "loss" => ("loss", "mean loss since the point before"),
        "stress" => (
            "stress",
            "how far distances on the map are from the dissimilarities",
        ),
        "wrong_triplets" => (
            "wrong triplets",
            "share of held-out triplets in the wrong order",
        ),
        other => return (other.replace('_', " ") + &at, ""),
    };
    (format!("{called}{at}"), meaning)
}

/// Whether more is better; `None` where that is not known.
pub fn more_is_better(name: &str) -> Option<bool> {
    match name.rsplit_once("_at_").map_or(name, |(base, _)| base) {
        "map" | "precision" | "recall" | "ndcg" | "hit_rate" | "coverage" | "auc" | "nmi"
        | "accuracy" => Some(true),
        "rmse" | "mae" | "nmse" | "knn_error" | "cost" | "loss" | "stress" | "consensus"
        | "error" | "wrong_triplets" | "disorder" => Some(false),
        _ => None,
    }
}

/// Which way is better, in words.
pub fn direction(name: &str) -> &'static str {
    match more_is_better(name) {
        Some(true) => "more is better",
        Some(false) => "less is better",
        None => "",
    }
}
