"""LORETA: online learning in the embedded manifold of low-rank matrices."""

import json

from reproduce import news
from reproduce.figure import Chart
from reproduce.items import Algorithm, Item, Outcome, Paper, judged
from reproduce.lab import error, mean, shown

RANKS = (10, 20, 30, 40, 50, 75, 100)


def terms_of(rank):
    """Terms of equal memory; rank 10 has all."""
    return None if rank == 10 else {30: 16660}.get(rank, 500_000 // rank)


def aggressive(bench, rank, steps):
    options = [f"--learner passive-aggressive --rank {rank} --aggressiveness {c}" for c in bench.pick((.03, .1, .3, 1), (.3,))]
    return news.best_setting(bench, terms_of(rank), steps, options)


def by_rank(bench):
    """Figure 3 (c)."""
    steps, splits = bench.pick(500_000, 10_000), range(bench.pick(5, 2))
    ranks = bench.pick(RANKS, (10, 30, 100))
    low = {"LORETA": lambda r: f"--learner loreta --rank {r}", "LORETA-PSD": lambda r: f"--learner loreta-psd --rank {r}",
           "PA": lambda r: aggressive(bench, r, steps), "PSD gradient": lambda r: f"--learner gradient-psd --rank {r}"}
    found = {name: {r: news.over_splits(bench, terms_of(r), splits, steps, options(r)) for r in ranks}
             for name, options in low.items()}
    full = {}
    for terms in (1000, 2000):
        c = news.best_setting(bench, terms, steps, [f"--learner oasis --aggressiveness {c}"
                                                    for c in bench.pick((.1, .3, 1), (.3,))])
        full[f"OASIS, {terms:,} terms"] = news.over_splits(bench, terms, splits, steps, c)
        if not bench.quick:
            full[f"LEGO, {terms:,} terms"] = news.over_splits(bench, terms, splits, 50_000, "--learner lego")
    others = [mean(v) for v in full.values()]
    ahead = [mean(found[ours][r]) > max([mean(found[name][r]) for name in ("PA", "PSD gradient")] + others)
             for ours in ("LORETA", "LORETA-PSD") for r in ranks]
    symmetric = [news.gap(found["LORETA-PSD"][r], found["LORETA"][r]) for r in ranks]
    middle = [mean(found[name][30]) - max(mean(found[name][10]), mean(found[name][100])) for name in ("LORETA", "LORETA-PSD")]
    gain = max(mean(v) for v in found["LORETA-PSD"].values()) / mean(full["OASIS, 1,000 terms"]) - 1
    lines = [[name, *(shown(v[r], 3) for r in ranks)] for name, v in found.items()]
    table = ("mAP by rank, number of terms × rank constant", ["", *(f"rank {r}" for r in ranks)], lines)
    wide = ("mAP of full matrices", ["", "mAP"], [[name, shown(v, 3)] for name, v in full.items()])
    chart = Chart("figure-3c", "20 Newsgroups: mAP by rank at constant memory", "rank", "mAP on test documents",
                  {name: [(r, mean(v[r]), error(v[r])) for r in ranks] for name, v in found.items()}
                  | {name: [(r, mean(v)) for r in ranks] for name, v in full.items()})
    ours = (f"LORETA ahead of all others at {sum(ahead)} of {len(ahead)} ranks; PSD − LORETA "
            f"{min(symmetric):+.3f} to {max(symmetric):+.3f}; rank 30 over the better of 10 and 100 "
            f"{middle[0]:+.3f} and {middle[1]:+.3f} (PSD); {gain:+.0%} over OASIS of equal memory")
    return Outcome(judged([all(ahead), mean(symmetric) > 0, all(m > 0 for m in middle), gain > .3]), ours,
                   [table, wide], [chart])


def curves(bench):
    """Figures 3 (a) and (b)."""
    budgets, splits = bench.pick((10_000, 30_000, 100_000, 300_000, 500_000), (3_000, 10_000)), range(bench.pick(5, 1))
    ranks = bench.pick((10, 40, 100), (30,))
    found = {(name, r): [(steps, news.over_splits(bench, terms_of(r), splits, steps, f"--learner {name} --rank {r}"))
                         for steps in budgets] for name in ("loreta", "loreta-psd") for r in ranks}
    faster = [mean(b[1]) > mean(a[1]) for r in ranks
              for a, b in list(zip(found["loreta", r], found["loreta-psd", r]))[:-1]]
    chart = Chart("figure-3ab", "20 Newsgroups: mAP along learning", "triplets", "mAP on test documents",
                  {f"{name}, rank {r}": [(s, mean(v), error(v)) for s, v in points] for (name, r), points in found.items()},
                  log="x")
    return Outcome(judged(faster), f"LORETA-PSD ahead at {sum(faster)} of {len(faster)} points before the last", [], [chart])


def gradient(bench):
    """Plain descent on factors, by step size."""
    steps, sizes = bench.pick(500_000, 10_000), bench.pick((.01, .03, .1, .3, 1, 3), (.1, 1))
    splits = range(bench.pick(5, 1))
    found = {}
    for name in ("gradient", "gradient-psd", "loreta"):
        for size in sizes:
            found[name, size] = news.over_splits(bench, 16660, splits, steps, f"--learner {name} --rank 30 --step-size {size}")
    def loss(name):
        best = max(mean(found[name, s]) for s in sizes)
        return best, best - mean(found[name, sizes[-1]])
    plain, symmetric = loss("gradient"), loss("gradient-psd")
    lines = [[name, *(shown(found[name, s], 3) for s in sizes)] for name in ("gradient", "gradient-psd", "loreta")]
    ours = (f"best mAP {plain[0]:.3f} on two factors and {symmetric[0]:.3f} on one; the longest step loses "
            f"{plain[1]:.3f} and {symmetric[1]:.3f}")
    return Outcome(judged([plain[0] < .5 * symmetric[0], plain[1] > symmetric[1]]), ours,
                   [("mAP by step size, rank 30", ["", *map(str, sizes)], lines)])


def identification(bench):
    """Algorithm 6 against LORETA, with η₂ chosen and with η₂ = η₁/2."""
    steps, splits = bench.pick(500_000, 20_000), range(bench.pick(5, 2))
    base = "--learner manifold-identification --rank 30"
    runs = {"LORETA": "--learner loreta --rank 30", "η₂ chosen": base,
            "η₂ = η₁/2": f"{base} --step-size 0.1 --inner-size 0.05"}
    found = {name: news.over_splits(bench, 16660, splits, steps, options) for name, options in runs.items()}
    ours = ", ".join(f"{name} {shown(v, 3)}" for name, v in found.items())
    lower = mean(found["η₂ chosen"]) < mean(found["LORETA"])
    collapsed = mean(found["η₂ = η₁/2"]) < .5 * mean(found["LORETA"])
    return Outcome(judged([lower, collapsed]), ours)


def polar(bench):
    """The polar geometry of PSD matrices on text."""
    steps, splits = bench.pick(500_000, 5_000), range(bench.pick(5, 1))
    found = {name: news.over_splits(bench, 16660, splits, steps, f"--learner {name} --rank 30")
             for name in ("loreta-psd", "flat", "polar-psd")}
    ours = ", ".join(f"{name} {shown(v, 3)}" for name, v in found.items())
    return Outcome(judged([mean(found["polar-psd"]) < min(mean(found["loreta-psd"]), mean(found["flat"]))]), ours)


SETS = ("corel5k", "bibtex", "delicious")


def ranked(bench, data, options, epochs):
    """mAP of labels, after the passes that do best on a held-out fifth."""
    def train(more):
        folder, model = bench.data / data, bench.lab.folder / "ranking.safetensors"
        told, cpu = bench.lab.rankfold(
            "train", "ranking", folder / f"{data}-train.svm.gz", "-o", model, "--label-names", folder / f"{data}.labels.txt",
            "--weight", "tfidf", "--normalize", "l2", "--seed", 1, "--bias-step", 0, "--popularity", 0, *options.split(), *more)
        return model, cpu

    def held():
        curve = bench.lab.folder / "curve.jsonl"
        train(["--epochs", epochs, "--valid-fraction", .2, "--patience", 6, "--curve", curve])
        points = [json.loads(line) for line in curve.read_text().splitlines()]
        best = max(points, key=lambda p: p["map"])
        return {"map": best["map"], "steps": best["steps"], "last": points[-1]["map"]}

    judge = bench.once(f"validate ranking {data} {options} --epochs {epochs}", held)

    def work():
        model, cpu = train(["--steps", max(1, round(judge["steps"] / .8))])
        found, _ = bench.lab.rankfold("eval", model, bench.data / data / f"{data}-test.svm.gz")
        return {"map": found["metrics"]["map"], "cpu": cpu}

    return judge, lambda: bench.once(f"train ranking {data} {options} --steps {round(judge['steps'] / .8)}", work)


def tuned(bench, data, options, name, values, epochs):
    """The test mAP with the value that does best on held-out rows."""
    tried = [ranked(bench, data, f"{options} --{name} {v}", epochs) for v in values]
    judge, test = max(tried, key=lambda t: t[0]["map"])
    return {**test(), "held": judge}


def labels(bench):
    """Figure 4 on data sets with many labels."""
    ranks, epochs = bench.pick((10, 50, 100, 150), (10,)), bench.pick(10, 2)
    sets = bench.pick(SETS, ("corel5k",))
    steps, caps = bench.pick((.01, .03, .1, .3, 1), (.1, .3)), bench.pick((.01, .03, .1, .3, 1), (.1,))
    found = {}
    for data in sets:
        for r in ranks:
            for init in ("zero", "identity", "gaussian"):
                found[data, r, init] = tuned(bench, data, f"--learner loreta --rank {r} --init {init}", "step-size", steps, epochs)
            found[data, r, "PA"] = tuned(bench, data, f"--learner passive-aggressive --rank {r} --init identity", "aggressiveness", caps, epochs)
        for full in ("perceptron", "group-perceptron"):
            found[data, full] = tuned(bench, data, f"--learner {full}", "step-size", steps, epochs)
    best = {(d, r): max(found[d, r, i]["map"] for i in ("zero", "identity", "gaussian")) for d in sets for r in ranks}
    ahead = [best[d, r] > max(found[d, r, "PA"]["map"], found[d, "perceptron"]["map"], found[d, "group-perceptron"]["map"])
             for d in sets for r in ranks]
    low = [found[d, ranks[0], "identity"]["map"] >= best[d, ranks[0]] - 1e-9 for d in sets]
    over = [found[d, r, "zero"]["held"]["map"] - found[d, r, "zero"]["held"]["last"] for d in sets for r in ranks]
    lines = [[f"{d}, rank {r}", *(f"{found[d, r, i]['map']:.3f}" for i in ("zero", "identity", "gaussian", "PA")),
              f"{found[d, 'perceptron']['map']:.3f}", f"{found[d, 'group-perceptron']['map']:.3f}"] for d in sets for r in ranks]
    head = ["", "LORETA, zero", "identity", "Gaussian", "PA", "perceptron", "group perceptron"]
    ours = (f"LORETA with its best start ahead of all others in {sum(ahead)} of {len(ahead)} cases; the identity best at rank "
            f"{ranks[0]} on {sum(low)} of {len(low)} sets; most overtraining {max(over):.3f}")
    return Outcome(judged([all(ahead), all(low)]), ours, [("test mAP of labels", head, lines)])


PAPER = Paper(
    "loreta", "LORETA (2012)", "Shalit, Weinshall, Chechik: Online learning in the embedded manifold of low-rank matrices",
    [
        Algorithm("Algorithm 2", "naive Riemannian gradient step", "the plain version of tests, `tests/all/baselines.rs`"),
        Algorithm("Algorithm 3", "LORETA-r, gradients of rank r", "`train similarity --learner loreta --batch B`"),
        Algorithm("Algorithm 4", "LORETA-1", "`train similarity --learner loreta`, `train ranking --learner loreta`"),
        Algorithm("Algorithm 5", "LORETA-1-PSD", "`train similarity --learner loreta-psd`"),
        Algorithm("Algorithm 6", "manifold identification", "`train similarity --learner manifold-identification --inner-steps S --inner-size E`"),
        Algorithm("Algorithm 7", "rank-one update of the pseudo-inverse", "`crates/rankfold/src/form`, by tracked Gram matrices"),
        Algorithm("Section 3.2", "squared loss with several outputs", ""),
        Algorithm("Section 7.1.4", "gradient descent on two factors and on one", "`--learner gradient`, `gradient-psd`"),
        Algorithm("Section 7.1.4", "iterative passive-aggressive", "`--learner passive-aggressive`; other schedules in `online::Turn`"),
        Algorithm("Section 7.1.4", "OASIS, LEGO", "`--learner oasis`, `lego`"),
        Algorithm("Section 7.1.4", "polar PSD geometry", "`--learner polar-psd`"),
        Algorithm("Section 7.2.1", "starts: zero, padded identity, Gaussian", "`--init zero|identity|gaussian`"),
        Algorithm("Section 7.2.4", "matrix perceptron, group perceptron", "`train ranking --learner perceptron|group-perceptron`"),
    ],
    [
        Item("retraction", "Theorem 3", "the retraction is of second order", tests="`the_retraction_is_of_second_order`"),
        Item("psd-retraction", "Theorem 6", "the PSD retraction is of second order",
             tests="`the_psd_retraction_is_of_second_order`"),
        Item("algorithms", "Algorithms 2 to 5 and 7", "all forms of a step are the same step",
             tests="`all_forms_of_one_step_agree`, `all_forms_of_one_psd_step_agree`, `golden_pinv_update_branches`"),
        Item("identification", "Section 5", "manifold identification is not as good as LORETA, because M collapses",
             "train similarity --learner manifold-identification --rank 30", "similarity", 60, 1.5, identification),
        Item("figure-3ab", "Figure 3 (a, b)", "LORETA-PSD learns faster than LORETA at ranks 10, 40 and 100",
             "train similarity --learner loreta|loreta-psd --rank 10|40|100", "similarity", 90, 1, curves),
        Item("figure-3c", "Figure 3 (c)", "LORETA is best at all ranks, PSD slightly better, rank 30 better than 10 and 100, "
             "33 % above a full matrix of equal memory", "train similarity --learner … --rank …", "similarity", 480, 3, by_rank),
        Item("gradient", "Section 7.1.4", "descent on two factors is too unstable to be shown, on one factor it is more stable",
             "train similarity --learner gradient|gradient-psd --rank 30 --step-size …", "similarity", 120, 1, gradient),
        Item("polar", "Section 7.1.4", "the polar PSD geometry was not in line with the other methods",
             "train similarity --learner polar-psd --rank 30", "similarity", 120, 1, polar),
        Item("figure-4", "Figure 4", "LORETA beats PA and both perceptrons at all ranks; the identity is the best start at low, zero at high rank",
             "train ranking --learner loreta|passive-aggressive|perceptron|group-perceptron", "ranking", 400, 1, labels),
        Item("figure-4-large", "Figure 4, right", "the same on 908,210 images", why_not="the features of ImageNet 2010 are not distributed"),
        Item("figure-5", "Figure 5", "LORETA of high rank is best at short and at long times; some ranks overtrain"),
    ])
