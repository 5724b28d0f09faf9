"""AROMA: adaptive regularization of matrices, distributions over similarities."""

import csv
import gzip
import random

from reproduce import news
from reproduce.figure import Chart
from reproduce.items import Algorithm, Item, Outcome, Paper, judged
from reproduce.lab import Missing, error, mean, plain, shown

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
    steps = bench.pick(500_000, 5_000)
    tuned = best_oasis(bench, steps)
    chosen = f"OASIS, C = {tuned.split()[-1]}, {bench.pick('validated', 'not validated')}"
    runs = {"OASIS, C = .1": oasis(.1), chosen: tuned, **{name: aroma(name) for name in AROMAS}}

    def one(split):
        return {name: news.similarity(bench, 1000, split, steps, options) for name, options in runs.items()}

    rounds = bench.rounds(range(bench.pick(5, 1)), one)
    try:
        dated = one(news.BY_DATE)
    except Missing:
        dated = None
    names = list(runs)

    def of(name, key):
        return [round[name][key] for round in rounds]

    leads = {(ours, theirs, m): news.gap(of(ours, key), of(theirs, key)) for ours in AROMAS for theirs in names[:2] for m, key in METRICS.items()}
    tables = [(f"random splits 65/35, {steps:,} triplets", ["", *METRICS], [[name, *(shown(of(name, m), 3) for m in METRICS.values())] for name in names])]
    if dated:
        tables.append(("the split by date", ["", *METRICS], [[name, *(f"{dated[name][m]:.3f}" for m in METRICS.values())] for name in names]))
    chart = Chart("figure-4-left", "20 Newsgroups: precision of the first k documents", "k", "precision",
                  {name: [(k, mean([round[name]["at"][i] for round in rounds]), error([round[name]["at"][i] for round in rounds]))
                          for i, k in enumerate(news.AT)] for name in names}, log="x")
    ours = "; ".join(f"{a} against {t}: " + ", ".join(f"{m} {leads[a, t, m]:+.3f}" for m in METRICS) for a in AROMAS for t in names[:2])
    # The claim is about C = .1.
    claims = [lead > .01 for (_, theirs, _), lead in leads.items() if theirs == names[0]]
    return Outcome(judged(claims), ours, tables, [chart])


def course(bench):
    """Figure 4, middle."""
    budgets = bench.pick((10_000, 30_000, 50_000, 100_000, 300_000, 500_000), (2_000, 5_000))
    runs = {"OASIS, C = .1": oasis(.1), **{name: aroma(name) for name in AROMAS}}
    rounds = bench.rounds(range(bench.pick(5, 1)), lambda split: {
        (name, b): news.similarity(bench, 1000, split, b, options)["precision_at_10"] for name, options in runs.items() for b in budgets})
    found = {name: {b: [round[name, b] for round in rounds] for b in budgets} for name in runs}
    faster = [mean(found["f-AROMA"][b]) > mean(found["d-AROMA"][b]) for b in budgets[:-1]]
    level = mean(found["OASIS, C = .1"][budgets[-1]])
    reached = {name: next((b for b in budgets if mean(found[name][b]) >= level), None) for name in AROMAS}
    tenth = [b is not None and budgets[-1] / b >= 10 for b in reached.values()]
    chart = Chart("figure-4-middle", "20 Newsgroups: precision of the first ten along learning", "triplets", "P@10",
                  {name: [(b, mean(v), error(v)) for b, v in points.items()] for name, points in found.items()}, log="x")
    lines = [[name, *(shown(v, 3) for v in points.values())] for name, points in found.items()]
    said = ", ".join(f"{name} at {b:,}" if b else f"{name} never" for name, b in reached.items())
    ours = f"f-AROMA ahead of d-AROMA at {sum(faster)} of {len(faster)} points; the P@10 of OASIS at {budgets[-1]:,} is reached by {said}"
    return Outcome(judged([all(faster), *tenth]), ours, [("P@10", ["", *(f"{b:,}" for b in budgets)], lines)], [chart])


def noise(bench):
    """Figure 4, right."""
    steps = bench.pick(100_000, 3_000)
    rounds = bench.rounds(range(bench.pick(5, 1)), lambda split: {
        (name, r): news.similarity(bench, 1000, split, steps, aroma(name, r))["precision_at_10"] for name in AROMAS for r in DECADES})
    return sensitivity("figure-4-right", f"20 Newsgroups: sensitivity to r, {steps:,} triplets", rounds)


def sensitivity(name, title, rounds):
    """Less than 5 % change over decades of r."""
    found = {n: {r: [round[n, r] for round in rounds] for r in DECADES} for n in AROMAS}
    change = {n: max(map(mean, v.values())) / min(map(mean, v.values())) - 1 for n, v in found.items()}
    chart = Chart(name, title, "r", "P@10",
                  {n: [(r, mean(v), error(v)) for r, v in points.items()] for n, points in found.items()}, log="x")
    lines = [[n, *(shown(v, 3) for v in points.values())] for n, points in found.items()]
    ours = "P@10 over r from .01 to 10: " + ", ".join(f"{n} changes by {c:.1%}" for n, c in change.items())
    return Outcome(judged(c < .05 for c in change.values()), ours, [("P@10", ["r", *map(str, DECADES)], lines)], [chart])


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


def pictured(bench, number, steps, options):
    """Metrics of a similarity of pictures on a fold."""
    def work():
        train, test = fold(bench, number)
        model = bench.lab.folder / "images.safetensors"
        bench.lab.rankfold("train", "similarity", train, "-o", model, "--steps", steps, "--seed", 1, "--weight", "tfidf",
                           "--normalize", "l2", *options.split())
        found, _ = bench.lab.rankfold("eval", model, test, "--score", "dot", "--precision-at", ",".join(map(str, news.AT[:7])))
        return {**{name: found["metrics"][name] for name in METRICS.values()}, "at": [found["metrics"][f"precision_at_{k}"] for k in news.AT[:7]],
                "cosine": {name: found["baseline"]["metrics"][name] for name in METRICS.values()}}
    return bench.once(f"train similarity images-{number} --steps {steps} {options}", work)


def retrieved(points, classes):
    """P@1, P@10, mAP and precisions by nearest rows, as `eval` has them for similarities."""
    import numpy as np

    squares = (points ** 2).sum(1)
    near = 2 * points @ points.T - squares - squares[:, None]
    np.fill_diagonal(near, -np.inf)
    order = np.argsort(-near, axis=1, kind="stable")[:, :-1]
    hits = classes[order] == classes[:, None]
    hits = hits[hits.any(1)]
    ranks = np.arange(1, hits.shape[1] + 1)
    precision = hits.cumsum(1) / ranks
    average = (precision * hits).sum(1) / hits.sum(1)
    at = precision.mean(0)
    return {"precision_at_1": float(at[0]), "precision_at_10": float(at[9]), "map": float(average.mean()),
            "at": [float(at[k - 1]) for k in news.AT[:7] if k <= len(at)]}


def measured_metric(bench, name, files, options):
    """Retrieval by a learned metric, whose coordinates `transform` gives."""
    def work():
        import numpy as np

        train, test = files()
        model, out = bench.lab.folder / "metric.safetensors", bench.lab.folder / "coordinates.npy"
        bench.lab.rankfold("train", "metric", train, "-o", model, "--weight", "tfidf", "--normalize", "l2", *options.split())
        bench.lab.rankfold("transform", model, test, "-o", out)
        return retrieved(np.load(out).astype(float), svm_classes(test))
    return bench.once(f"train metric {name} {options}", work, "metric")


def svm_classes(path):
    import numpy as np

    with open(path) as file:
        return np.unique([line.split(None, 1)[0] for line in file], return_inverse=True)[1]


def dense(path, features):
    """Rows of a file of svmlight, weighted and normalized as the learners have them: tf-idf by the training rows comes after."""
    import numpy as np

    with open(path) as file:
        lines = [line.split() for line in file]
    x = np.zeros((len(lines), features))
    for row, line in zip(x, lines):
        for cell in line[1:]:
            j, v = cell.split(":")
            row[int(j) - 1] = float(v)
    return x


def neighbors(bench, number):
    """LMNN on the pictures of a fold, by a plain program."""
    def work():
        import numpy as np

        from reproduce.plain import metrics

        train, test = fold(bench, number)
        x, z = dense(train, 800), dense(test, 800)
        weight = np.log(len(x) / (x > 0).sum(0).clip(min=1))
        x, z = (a * weight for a in (x, z))
        x, z = (a / np.linalg.norm(a, axis=1, keepdims=True).clip(min=1e-12) for a in (x, z))
        # Directions of the training rows hold all that a metric of them can use.
        axes = np.linalg.svd(x, full_matrices=False)[2][:bench.pick(200, 20)].T
        factor = metrics.lmnn(x @ axes, svm_classes(train), iterations=bench.pick(200, 10))
        return {**retrieved(z @ axes @ factor, svm_classes(test)), "euclid": retrieved(z, svm_classes(test))}
    return bench.once(f"plain LMNN images-{number} on 200 directions", work, plain("metrics"))


def images(bench):
    """Figure 3, left, on Office-Caltech10."""
    steps = bench.pick(200_000, 1_000)
    runs = {"OASIS, C = .1": oasis(.1), "LEGO": "--learner lego", **{name: aroma(name, .01) for name in AROMAS}}
    runs = bench.pick(runs, {name: runs[name] for name in ("OASIS, C = .1", "d-AROMA")})

    def one(number):
        out = {name: pictured(bench, number, min(steps, 20_000) if name == "LEGO" else steps, options) for name, options in runs.items()}
        if not bench.quick:
            out["ITML"] = measured_metric(bench, f"images-{number}", lambda: fold(bench, number), "--learner itml --rank 800 --pairs-from random --iterations 20")
            out["LMNN"] = neighbors(bench, number)
            out["Euclidean"] = out["LMNN"]["euclid"]
        return out

    rounds = bench.rounds(range(bench.pick(5, 1)), one)
    names = list(rounds[0])

    def of(name, key):
        return [round[name][key] for round in rounds]

    others = [name for name in names if "AROMA" not in name]
    leads = {(name, m): mean(of(name, METRICS[m])) - max(mean(of(o, METRICS[m])) for o in others) for name in names if "AROMA" in name for m in ("P@1", "P@10")}
    table = (f"{steps:,} triplets, r = .01", ["", *METRICS], [[name, *(shown(of(name, m), 3) for m in METRICS.values())] for name in names])
    chart = Chart("figure-3", "Office-Caltech10: precision of the first k pictures", "k", "precision",
                  {name: [(k, mean([round[name]["at"][i] for round in rounds]), error([round[name]["at"][i] for round in rounds]))
                          for i, k in enumerate(news.AT[:7])] for name in names}, log="x")
    ours = (", ".join(f"{name} P@1 {shown(of(name, 'precision_at_1'), 3)}" for name in names)
            + "; lead of AROMA over the best other: " + ", ".join(f"{n} {m} {v:+.3f}" for (n, m), v in leads.items()))
    return Outcome(judged(lead > 0 for lead in leads.values()), ours, [table], [chart])


def image_course(bench):
    """Figure 3, middle."""
    budgets = bench.pick((2_000, 5_000, 20_000, 50_000, 200_000), (500, 1_000))
    names = bench.pick(tuple(AROMAS), ("d-AROMA",))
    rounds = bench.rounds(range(bench.pick(5, 1)), lambda number: {
        (name, b): pictured(bench, number, b, aroma(name, .01))["precision_at_10"] for name in names for b in budgets})
    found = {name: {b: [round[name, b] for round in rounds] for b in budgets} for name in names}
    chart = Chart("figure-3-middle", "Office-Caltech10: precision of the first ten along learning", "triplets", "P@10",
                  {name: [(b, mean(v), error(v)) for b, v in points.items()] for name, points in found.items()}, log="x")
    lines = [[name, *(shown(v, 3) for v in points.values())] for name, points in found.items()]
    table = ("P@10", ["", *(f"{b:,}" for b in budgets)], lines)
    if bench.quick:
        return Outcome(judged([True]), "P@10 " + ", ".join(lines[0][1:]), [table], [chart])
    last = {name: mean(v[budgets[-1]]) - mean(v[budgets[-2]]) for name, v in found.items()}
    first = mean(found["d-AROMA"][budgets[0]]) > mean(found["f-AROMA"][budgets[0]])
    later = mean(found["f-AROMA"][budgets[-2]]) > mean(found["d-AROMA"][budgets[-2]])
    ours = (f"d-AROMA − f-AROMA {mean(found['d-AROMA'][budgets[0]]) - mean(found['f-AROMA'][budgets[0]]):+.3f} at {budgets[0]:,} and "
            f"{mean(found['d-AROMA'][budgets[-2]]) - mean(found['f-AROMA'][budgets[-2]]):+.3f} at {budgets[-2]:,} triplets; from there to {budgets[-1]:,} "
            + ", ".join(f"{name} changes by {v:+.3f}" for name, v in last.items()))
    return Outcome(judged([first, later, all(abs(v) < .02 for v in last.values())]), ours, [table], [chart])


def image_noise(bench):
    """Figure 3, right."""
    steps = bench.pick(50_000, 500)
    rounds = bench.rounds(range(bench.pick(5, 1)), lambda number: {
        (name, r): pictured(bench, number, steps, aroma(name, r))["precision_at_10"] for name in AROMAS for r in DECADES})
    return sensitivity("figure-3-right", f"Office-Caltech10: sensitivity to r, {steps:,} triplets", rounds)


def itml(bench):
    """Figure 4, left: ITML with its usual settings."""
    steps = bench.pick(500_000, 5_000)
    words = f"--learner itml --rank {bench.pick(1000, 20)} --pairs-from random --constraints {bench.pick(20_000, 1_000)} --iterations {bench.pick(3, 1)}"
    rounds = bench.rounds(range(bench.pick(5, 1)), lambda split: {
        "ITML": measured_metric(bench, f"news-1000-{split}", lambda: news.rows(bench, 1000, split), words),
        **{name: news.similarity(bench, 1000, split, steps, aroma(name)) for name in bench.pick(AROMAS, ("d-AROMA",))}})
    found = {name: {m: [round[name][key] for round in rounds] for m, key in METRICS.items()} for name in rounds[0]}
    behind = [mean(found["ITML"][m]) < mean(found[name][m]) for name in found if name != "ITML" for m in METRICS]
    lines = [[name, *(shown(v[m], 3) for m in METRICS)] for name, v in found.items()]
    ours = "; ".join(f"{name} P@1 {shown(v['P@1'], 3)}, mAP {shown(v['mAP'], 3)}" for name, v in found.items())
    return Outcome(judged(behind), ours, [("random splits 65/35", ["", *METRICS], lines)])


def mistakes(bench):
    """Theorem 1: mistakes of d-AROMA on separable streams, with the diagonal of Σ⁻¹ and the new covariance, and the bound."""
    def work(seed):
        from reproduce.plain import bounds

        return bounds.mistakes(seed)

    rounds = bench.rounds(range(bench.pick(10, 2)), lambda seed: bench.once(f"plain d-AROMA on a separable stream, seed {seed}", lambda: work(seed), plain("bounds")))
    holds = [round["mistakes"] <= round["bound"] for round in rounds]
    share = [round["mistakes"] / round["bound"] for round in rounds]
    ours = f"mistakes are at most the bound on {sum(holds)} of {len(holds)} streams; they are {min(share):.2%} to {max(share):.2%} of it"
    return Outcome(judged(holds), ours)


PAPER = Paper(
    "aroma", "AROMA (2012)", "Crammer, Chechik: Adaptive regularization for weight matrices",
    [
        Algorithm("Algorithm 1", "d-AROMA", "`train similarity --learner aroma-diagonal`"),
        Algorithm("Algorithm 2", "f-AROMA", "`train similarity --learner aroma-factored`"),
        Algorithm("Section 3", "noise r", "`--confidence-r`"),
        Algorithm("Section 4", "updates on mistakes, new covariances, diagonal of Σ⁻¹", "`--update-on`, `--covariance`, `--inverse-diagonal`"),
        Algorithm("Section 5", "OASIS, LEGO", "`--learner oasis`, `lego`"),
        Algorithm("Section 5", "ITML and LMNN for retrieval", "`train metric --learner itml` and `transform`; `reproduce/plain/metrics.py`"),
        Algorithm("Section 5", "HIER", "not here: it needs a hierarchy of the classes, which these data do not have"),
        Algorithm("Figures 3 and 4", "precision of the first k for all k", "`eval --precision-at 1,2,5,…`"),
    ],
    [
        Item("theorem-1", "Theorem 1", "a mistake bound of d-AROMA", "a plain program of Algorithm 1, with the diagonal of Σ⁻¹", "plain/bounds", 1, .1, mistakes),
        Item("lemma-3", "Lemma 3", "the sum of variances is bounded by log det Ω⁻¹",
             tests="`the_sum_of_variances_is_bounded_by_what_was_learned`"),
        Item("theorem-2", "Theorem 2", "a mistake bound of f-AROMA, on separable streams",
             tests="`mistakes_on_a_separable_stream_are_bounded`"),
        Item("figure-3", "Figure 3, left (50 classes of Caltech256)", "AROMA is far ahead at the top: P@1 from .22 (OASIS) to .33, LEGO, ITML, LMNN and "
             "Euclidean distances behind; here with ten classes of Office-Caltech10", "train similarity --learner aroma-diagonal|aroma-factored|oasis|lego",
             "similarity", 60, .3, images),
        Item("figure-3-middle", "Figure 3, middle", "convergence after 200K to 500K triplets; d-AROMA ahead at first, f-AROMA later; here Office-Caltech10, to 200K",
             "train similarity --learner aroma-diagonal|aroma-factored --steps …", "similarity", 60, .2, image_course),
        Item("figure-3-right", "Figure 3, right", "less than 5 % change over three decades of r, on images; here Office-Caltech10, 50K triplets",
             "train similarity --confidence-r .01|.1|1|10", "similarity", 60, .3, image_noise),
        Item("figure-4-left", "Figure 4, left", "both AROMA learners are clearly better than OASIS with C = .1, random splits, 500K triplets",
             "train similarity --learner aroma-diagonal|aroma-factored --confidence-r 1", "similarity", 5, .5, messages),
        Item("figure-4-middle", "Figure 4, middle", "f-AROMA learns faster than d-AROMA; OASIS needs ten times the triplets",
             "train similarity --learner …", "similarity", 11, .5, course),
        Item("figure-4-right", "Figure 4, right", "less than 5 % change over three decades of r",
             "train similarity --confidence-r .01|.1|1|10", "similarity", 5, .5, noise),
        Item("itml", "Figure 4, left", "ITML is behind both", "train metric --learner itml --rank 1000", "similarity", 60, .3, itml),
    ])
