"""AROMA: adaptive regularization of matrices, distributions over similarities."""

import csv
import gzip
import random

from reproduce import news
from reproduce.figure import Chart
from reproduce.items import Algorithm, Item, Outcome, Paper, judged
from reproduce.lab import error, mean, shown

AROMAS = {"d-AROMA": "aroma-diagonal", "f-AROMA": "aroma-factored"}
METRICS = {"P@1": "precision_at_1", "P@10": "precision_at_10", "mAP": "map"}
DECADES = (.01, .1, 1, 10)


def oasis(c):
    return f"--learner oasis --aggressiveness {c}"


def aroma(name, r=1):
    return f"--learner {AROMAS[name]} --confidence-r {r}"


def best_oasis(bench, steps):
    return news.best_setting(bench, 1000, steps, [oasis(c) for c in bench.pick((.03, .1, .3, 1), (.3,))])


def messages(bench):
    """Figure 4, left: random splits as in the paper, and the split by date beside them."""
    steps, splits = bench.pick(500_000, 5_000), [*range(bench.pick(5, 2)), news.BY_DATE]
    tuned = best_oasis(bench, steps)
    chosen = f"OASIS, C = {tuned.split()[-1]}, {bench.pick('validated', 'not validated')}"
    runs = {"OASIS, C = .1": oasis(.1), chosen: tuned,
            **{name: aroma(name) for name in AROMAS}}
    found = {name: {m: news.over_splits(bench, 1000, splits, steps, options, m) for m in METRICS.values()}
             for name, options in runs.items()}
    names = list(runs)
    leads = {(ours, theirs, m): news.gap(found[ours][key][:-1], found[theirs][key][:-1])
             for ours in AROMAS for theirs in names[:2] for m, key in METRICS.items()}
    tables = [(f"{title}", ["", *METRICS], [[name, *(shown(found[name][m][part], 3) for m in METRICS.values())] for name in names])
              for title, part in ((f"random splits 65/35, {steps:,} triplets", slice(0, -1)), ("the split by date", slice(-1, None)))]
    ours = "; ".join(f"{a} against {t}: " + ", ".join(f"{m} {leads[a, t, m]:+.3f}" for m in METRICS)
                     for a in AROMAS for t in names[:2])
    return Outcome(judged(lead > .01 for lead in leads.values()), ours, tables)


def course(bench):
    """Figure 4, middle."""
    budgets, splits = bench.pick((10_000, 30_000, 50_000, 100_000, 300_000, 500_000), (2_000, 5_000)), range(bench.pick(5, 1))
    runs = {"OASIS, C = .1": oasis(.1), **{name: aroma(name) for name in AROMAS}}
    found = {name: {b: news.over_splits(bench, 1000, splits, b, options, "precision_at_10") for b in budgets}
             for name, options in runs.items()}
    faster = [mean(found["f-AROMA"][b]) > mean(found["d-AROMA"][b]) for b in budgets[:-1]]
    level = mean(found["OASIS, C = .1"][budgets[-1]])
    reached = {name: next((b for b in budgets if mean(found[name][b]) >= level), None) for name in AROMAS}
    tenth = [b is not None and budgets[-1] / b >= 10 for b in reached.values()]
    chart = Chart("figure-4-middle", "20 Newsgroups: precision of the first ten along learning", "triplets", "P@10",
                  {name: [(b, mean(v), error(v)) for b, v in points.items()] for name, points in found.items()}, log="x")
    said = ", ".join(f"{name} at {b:,}" if b else f"{name} never" for name, b in reached.items())
    ours = f"f-AROMA ahead of d-AROMA at {sum(faster)} of {len(faster)} points; the P@10 of OASIS at {budgets[-1]:,}: {said}"
    return Outcome(judged([all(faster), *tenth]), ours, [], [chart])


def noise(bench):
    """Figure 4, right."""
    steps, splits = bench.pick(100_000, 3_000), range(bench.pick(5, 1))
    found = {name: {r: news.over_splits(bench, 1000, splits, steps, aroma(name, r), "precision_at_10") for r in DECADES}
             for name in AROMAS}
    change = {name: max(map(mean, v.values())) / min(map(mean, v.values())) - 1 for name, v in found.items()}
    chart = Chart("figure-4-right", f"20 Newsgroups: sensitivity to r, {steps:,} triplets", "r", "P@10",
                  {name: [(r, mean(v), error(v)) for r, v in points.items()] for name, points in found.items()}, log="x")
    ours = ", ".join(f"{name} changes by {c:.1%}" for name, c in change.items())
    return Outcome(judged(c < .05 for c in change.values()), ours, [], [chart])


def fold(bench, number):
    """One of five stratified folds of the Caltech part of Office-Caltech10, with the rest."""
    with gzip.open(bench.data / "office_caltech10_surf" / "office_caltech10_surf.csv.gz", "rt", newline="") as source:
        pictures = [row[1:] for row in csv.reader(source) if row[0] == "Caltech10"]
    seen, places = {}, []
    for label, *_ in random.Random(0).sample(pictures, len(pictures)):
        seen[label] = seen.get(label, 0) + 1
        places.append(seen[label] % 5)
    pictures = random.Random(0).sample(pictures, len(pictures))
    files = [bench.lab.folder / f"images-{number}.{part}.svm" for part in ("train", "test")]
    for file, tested in zip(files, (False, True)):
        with file.open("w") as out:
            for (label, *cells), place in zip(pictures, places):
                if (place == number) == tested:
                    out.write(label + "".join(f" {i}:{float(c):g}" for i, c in enumerate(cells, 1) if float(c)) + "\n")
    return files


def images(bench):
    """Figure 3 on Office-Caltech10."""
    steps, folds = bench.pick(200_000, 2_000), range(bench.pick(5, 1))

    def run(options, number):
        def work():
            train, test = fold(bench, number)
            model = bench.lab.folder / "images.safetensors"
            bench.lab.rankfold("train", "similarity", train, "-o", model, "--steps", steps, "--seed", 1, "--weight", "tfidf",
                               "--normalize", "l2", *options.split())
            found, _ = bench.lab.rankfold("eval", model, test)
            return {**found["metrics"], "cosine": found["baseline"]["metrics"]["precision_at_1"]}
        return bench.once(f"train similarity images-{number} --steps {steps} {options}", work)

    runs = {"OASIS, C = .1": oasis(.1), **{name: aroma(name, .01) for name in AROMAS}}
    found = {name: {m: [run(options, i)[key] for i in folds] for m, key in METRICS.items()} for name, options in runs.items()}
    leads = [mean(found[name][m]) - mean(found["OASIS, C = .1"][m]) for name in AROMAS for m in ("P@1", "P@10")]
    table = (f"{steps:,} triplets, r = .01", ["", *METRICS], [[name, *(shown(v[m], 3) for m in METRICS)] for name, v in found.items()])
    ours = ", ".join(f"{name} P@1 {mean(v['P@1']):.3f}" for name, v in found.items())
    return Outcome(judged(lead > 0 for lead in leads), ours, [table])


PAPER = Paper(
    "aroma", "AROMA (2012)", "Crammer, Chechik: Adaptive regularization for weight matrices",
    [
        Algorithm("Algorithm 1", "d-AROMA", "`train similarity --learner aroma-diagonal`"),
        Algorithm("Algorithm 2", "f-AROMA", "`train similarity --learner aroma-factored`"),
        Algorithm("Section 3", "noise r", "`--confidence-r`"),
        Algorithm("Section 4", "updates on mistakes, new covariances, diagonal of Σ⁻¹", "`--update-on`, `--covariance`, `--inverse-diagonal`"),
        Algorithm("Section 5", "OASIS, LEGO", "`--learner oasis`, `lego`"),
        Algorithm("Section 5", "ITML and LMNN for retrieval", ""),
        Algorithm("Section 5", "HIER", ""),
        Algorithm("Figures 3 and 4", "precision of the first k for all k", ""),
    ],
    [
        Item("theorem-1", "Theorem 1", "a mistake bound of d-AROMA"),
        Item("lemma-3", "Lemma 3", "the sum of variances is bounded by log det Ω⁻¹",
             tests="`the_sum_of_variances_is_bounded_by_what_was_learned`"),
        Item("theorem-2", "Theorem 2", "a mistake bound of f-AROMA, on separable streams",
             tests="`mistakes_on_a_separable_stream_are_bounded`"),
        Item("figure-3", "Figure 3, left (50 classes of Caltech256)", "AROMA is far ahead at the top: P@1 from .22 (OASIS) to .33; "
             "here with ten classes of Office-Caltech10", "train similarity --learner aroma-diagonal|aroma-factored|oasis",
             "similarity", 120, 1, images),
        Item("figure-3-middle", "Figure 3, middle", "convergence after 200K to 500K triplets; d-AROMA ahead at first, f-AROMA later"),
        Item("figure-3-right", "Figure 3, right", "less than 5 % change over three decades of r, on images"),
        Item("figure-4-left", "Figure 4, left", "both AROMA learners are clearly better than OASIS with C = .1, random splits, 500K triplets",
             "train similarity --learner aroma-diagonal|aroma-factored --confidence-r 1", "similarity", 400, 1.5, messages),
        Item("figure-4-middle", "Figure 4, middle", "f-AROMA learns faster than d-AROMA; OASIS needs ten times the triplets",
             "train similarity --learner …", "similarity", 700, 1, course),
        Item("figure-4-right", "Figure 4, right", "less than 5 % change over three decades of r",
             "train similarity --confidence-r .01|.1|1|10", "similarity", 200, 1, noise),
        Item("itml", "Figure 4, left", "ITML is behind both"),
    ])
