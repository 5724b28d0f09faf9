"""Linear regression under fixed-rank constraints."""

from reproduce.figure import Chart
from reproduce.items import Algorithm, Item, Outcome, Paper, judged
from reproduce.lab import error, mean, shown

RANKS = (2, 3, 5, 7, 10, 12)
LEARNERS = {"balanced": "--learner balanced", "polar": "--learner polar", "MMMF": "--learner gradient", "SVP": "--learner svp",
            "OptSpace": "--learner optspace"}
PRINTED = {"balanced": (.90, .90, .90, .88, .88, .88), "polar": (.89, .89, .87, .86, .85, .85), "MMMF": (.88, .88, .86, .86, .86, .87),
           "SVP": (.89, .88, .88, .89, .90, .92), "OptSpace": (.90, .90, .90, .89, .89, .89), "ADMiRA": (1.11, 1.09, 1.07, 1.04, 1.04, 1.03)}


def rated(bench, data, split, rank, options):
    """The test RMSE of a model of ratings without biases."""
    def work():
        prefix = bench.lab.folder / f"{data}-{split}"
        train, test = (prefix.with_name(f"{prefix.name}.{part}.csv.gz") for part in ("train", "test"))
        if not test.exists():
            bench.lab.rankfold("split", bench.data / "movielens" / f"{data}.csv.gz", "-o", prefix, "--test", .1, "--seed", split)
        model = bench.lab.folder / "ratings.safetensors"
        _, cpu = bench.lab.rankfold("train", "completion", train, "-o", model, "--rank", rank, "--no-bias", *options.split())
        found, _ = bench.lab.rankfold("eval", model, test)
        return {"rmse": found["metrics"]["rmse"], "biases": found["baseline"]["metrics"]["rmse"], "cpu": cpu}
    return bench.once(f"train completion {data}-{split} --rank {rank} --no-bias {options}", work)


def movielens(bench):
    """Table 1."""
    data, splits = bench.pick("ml-1m", "ml-100k"), range(bench.pick(10, 1))
    ranks = bench.pick(RANKS, (2, 10))
    learners = bench.pick(LEARNERS, {name: LEARNERS[name] for name in ("balanced", "polar", "MMMF")})
    found = {name: {r: [rated(bench, data, s, r, options)["rmse"] for s in splits] for r in ranks}
             for name, options in learners.items()}
    lines = []
    for name, values in found.items():
        lines.append([name, *(shown(values[r], 3) for r in ranks)])
        lines.append([f"{name} (paper, 1M)", *(f"{PRINTED[name][RANKS.index(r)]:.2f}" for r in ranks)])
    chart = Chart("table-1", f"{data}: test RMSE by rank, without biases", "rank", "test RMSE",
                  {name: [(r, mean(v[r]), error(v[r])) for r in ranks] for name, v in found.items()},
                  {} if bench.quick else {name: list(zip(RANKS, PRINTED[name])) for name in learners})
    last = ranks[-2:]
    polar = [mean(found["polar"][r]) <= min(mean(found[name][r]) for name in found) for r in last]
    near = [mean(found[name][r]) <= PRINTED[name][RANKS.index(r)] + .015 for name in found for r in ranks]
    ours = (f"{data}: at or below the printed figure + .015 in {sum(near)} of {len(near)} cells; polar is best at "
            f"{sum(polar)} of {len(polar)} of the largest ranks")
    return Outcome(judged([all(near), all(polar)]), ours, [("test RMSE", ["", *(f"rank {r}" for r in ranks)], lines)], [chart])


PAPER = Paper(
    "fixed_rank", "Fixed-rank regression (2011)", "Meyer, Bonnabel, Sepulchre: Linear regression under fixed-rank constraints: a Riemannian approach",
    [
        Algorithm("Algorithm 1", "balanced geometry, online", "`train pairs --learner balanced`, `train completion --learner balanced --solver online`"),
        Algorithm("Algorithm 2", "polar geometry, online", "`train pairs --learner polar`, `train completion --learner polar --solver online`"),
        Algorithm("Figure 1", "line search on a manifold", "`--solver descent`"),
        Algorithm("Section 4", "mini-batches", ""),
        Algorithm("Section 4", "regularizer", "`--regularization`"),
        Algorithm("Section 4", "Armijo's first step s₀", "`--solver descent --first-step`"),
        Algorithm("Section 5", "MMMF, SVP, OptSpace", "`--learner gradient`, `svp`, `optspace`"),
        Algorithm("Section 5", "ADMiRA, SVT", ""),
    ],
    [
        Item("figure-2", "Figure 2", "balanced descent from ‖G₀‖ = 5‖H₀‖ converges where MMMF is slow", "cargo run --release --example toys"),
        Item("figure-3a", "Figure 3 (a)", "online, balanced and polar compete with LORETA and MMMF; balancing reduces the time",
             "cargo run --release --example toys"),
        Item("figure-3b", "Figure 3 (b)", "the test error of all is least at the true rank, ten partitions", "cargo run --release --example toys"),
        Item("figure-3cd", "Figure 3 (c, d)", "time to a training RMSE of 1e-3 and test error for matrices of rank 2"),
        Item("table-1", "Table 1", "test RMSE on MovieLens 1M for six ranks; polar is best at ranks 10 and 12",
             "train completion --no-bias --learner balanced|polar|gradient|svp|optspace", "completion", 2000, 2, movielens),
        Item("table-1-admira", "Table 1, ADMiRA", "1.11, 1.09, 1.07, 1.04, 1.04, 1.03"),
    ])
