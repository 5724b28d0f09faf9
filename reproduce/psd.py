"""PSD: regression on fixed-rank positive semidefinite matrices."""

import csv
import gzip
import json
import math
import random

from reproduce.figure import Chart
from reproduce.items import Algorithm, Item, Outcome, Paper, judged
from reproduce.lab import error, mean, plain, shown


def read(path):
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.reader(file))
    return rows[0], rows[1:]


def read_plain(path):
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    return rows[0], rows[1:]


def write(path, header, rows, leave_out=()):
    keep = [i for i, name in enumerate(header) if name not in leave_out]
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow([header[i] for i in keep])
        out.writerows([row[i] for i in keep] for row in rows)
    return path


def halves(header, rows, seed):
    """Two halves with as many rows of each class, give or take one."""
    label, classes = header.index("label"), {}
    for row in rows:
        classes.setdefault(row[label], []).append(row)
    parts, turn = ([], []), 0
    for name in sorted(classes):
        members = list(classes[name])
        random.Random(f"{seed}/{name}").shuffle(members)
        for row in members:
            parts[turn % 2].append(row)
            turn += 1
    return parts


def learned(bench, name, parts, options):
    """The 5-NN error of a metric, and those of its baselines."""
    def work():
        header, train_rows, test_rows = parts()
        train = write(bench.lab.folder / "train.csv", header, train_rows, ("fold", "split"))
        test = write(bench.lab.folder / "test.csv", header, test_rows, ("fold", "split"))
        model = bench.lab.folder / "metric.safetensors"
        _, cpu = bench.lab.rankfold("train", "metric", train, "-o", model, *options.split())
        found, _ = bench.lab.rankfold("eval", model, test, "--train", train)
        return {"error": found["metrics"]["knn_error"], "cpu": cpu,
                "baselines": {c["name"]: c["metrics"]["knn_error"] for c in found["baselines"]}}
    return bench.once(f"train metric {name} {options}", work)


def subspaces(bench):
    """Figure 3."""
    rounds = bench.rounds(range(bench.pick(10, 2)), lambda seed: bench.once(
        f"example psd_toys subspace {seed}", lambda: bench.lab.example("psd_toys", "subspace", seed)))
    fixed, found = ([round[key] for round in rounds] for key in ("fixed", "learned"))
    better = [a > b for a, b in zip(fixed, found)]
    ours = (f"RMSE on 200 samples: principal directions {shown(fixed, 2)}, learned subspace {shown(found, 2)}; "
            f"lower in {sum(better)} of {len(better)} problems")
    lines = [["principal directions, λ = 0", *(f"{v:.2f}" for v in fixed)], ["learned, λ = .5", *(f"{v:.2f}" for v in found)]]
    return Outcome(judged(better), ours, [("RMSE by problem", ["", *map(str, range(len(rounds)))], lines)])


def balance(bench):
    """Figure 4."""
    rounds = bench.rounds(range(bench.pick(10, 1)), lambda seed: bench.once(
        f"example psd_toys lambda {seed}", lambda: bench.lab.example("psd_toys", "lambda", seed)))
    cells = {(c["lambda"], c["tolerance"]): i for i, c in enumerate(rounds[0])}
    lambdas, tolerances = sorted({l for l, _ in cells}), sorted({t for _, t in cells}, reverse=True)

    def of(l, t, key):
        return [round[cells[l, t]][key] for round in rounds]

    inner = [l for l in lambdas if .05 < l < .95]
    spread = {t: max(mean(of(l, t, "rmse")) for l in inner) / min(mean(of(l, t, "rmse")) for l in inner) - 1 for t in tolerances}
    steps = {l: mean(of(l, tolerances[-1], "iterations")) for l in inner}
    ours = (f"test RMSE over λ from .1 to .9 differs by {spread[tolerances[0]]:.0%} at ε = {tolerances[0]:g} and by {spread[tolerances[-1]]:.1%} at "
            f"{tolerances[-1]:g}, where iterations range from {min(steps.values()):.0f} (λ = {min(steps, key=steps.get)}) to {max(steps.values()):.0f}")
    charts = [Chart(f"figure-4-{key}", f"Rank 5 in ten dimensions: {what} by λ", "λ", what,
                    {f"ε = {t:g}": [(l, mean(of(l, t, key)), error(of(l, t, key))) for l in lambdas] for t in tolerances}, log="y")
              for key, what in (("rmse", "test RMSE"), ("iterations", "iterations"))]
    claims = [spread[tolerances[-1]] < .01 < spread[tolerances[0]], max(steps.values()) > 2 * min(steps.values())]
    return Outcome(judged(claims), ours, [], charts)


def minibatches(bench):
    """Figure 5."""
    name = bench.pick("minibatch", "minibatch-quick")
    rounds = bench.rounds(range(bench.pick(5, 1)), lambda seed: bench.once(
        f"example psd_toys {name} {seed}", lambda: bench.lab.example("psd_toys", name, seed)))
    ways = ("flat, 1", "flat, 32", "polar, 1", "polar, 32")

    def last(way, round):
        return round[way]["passes"][-1][1]

    def all_seconds(way, round):
        """The time of learning and of choosing the step."""
        return round[way]["passes"][-1][0] + round[way]["seconds"]

    lines = [[way, *(shown([round[way]["passes"][i][1] for round in rounds], 3) for i in range(len(rounds[0][way]["passes"]))),
              shown([all_seconds(way, r) for r in rounds], 1)] for way in ways]
    batch = [[f"{geometry}, batch", *[""] * (len(rounds[0]["flat, 1"]["passes"]) - 1), shown([r[f"{geometry}, batch"]["rmse"] for r in rounds], 3),
              shown([r[f"{geometry}, batch"]["seconds"] for r in rounds], 1)] for geometry in ("flat", "polar")]
    noise = mean([round["planted"] for round in rounds])
    better = {g: [last(f"{g}, 32", r) < last(f"{g}, 1", r) for r in rounds] for g in ("flat", "polar")}
    # Online is sooner where one pass gets near to what batch needs more time for.
    sooner = {g: [r[f"{g}, 1"]["passes"][0][0] < r[f"{g}, batch"]["seconds"] and r[f"{g}, 1"]["passes"][0][1] < r["start"] / 2 for r in rounds]
              for g in ("flat", "polar")}
    ours = (f"test RMSE after {len(rounds[0]['flat, 1']['passes'])} passes (planted: {noise:.3f}): "
            + ", ".join(f"{way} a step {shown([last(way, r) for r in rounds], 3)}" for way in ways)
            + "; 32 samples a step end lower in " + ", ".join(f"{sum(v)} of {len(v)} runs of {g}" for g, v in better.items())
            + "; one online pass takes less time than batch in " + ", ".join(f"{sum(v)} of {len(v)} ({g})" for g, v in sooner.items()))
    head = ["", *(f"after pass {i + 1}" for i in range(len(rounds[0]["flat, 1"]["passes"]))), "seconds, with the choice of steps"]
    chart = Chart("figure-5", "Rank 10 in 50 dimensions: test RMSE by time (first problem)", "seconds", "test RMSE",
                  {way: [tuple(p) for p in rounds[0][way]["passes"]] for way in ways}
                  | {f"{g}, batch": [(rounds[0][f"{g}, batch"]["seconds"], rounds[0][f"{g}, batch"]["rmse"])] for g in ("flat", "polar")}, log="x")
    return Outcome(judged([*better["flat"], *better["polar"], *sooner["flat"], *sooner["polar"]]), ours,
                   [("test RMSE", head, lines + batch)], [chart])


def costs(bench):
    """Table 1: how the time of a step grows with the rank."""
    rounds = bench.rounds(range(bench.pick(3, 1)), lambda seed: bench.once(
        f"example psd_toys cost {seed}", lambda: bench.lab.example("psd_toys", "cost", seed)))
    out, lines = {}, []
    for name in ("flat", "polar"):
        of = {(c["d"], c["rank"]): mean([round[i]["microseconds"] for round in rounds])
              for i, c in enumerate(rounds[0]) if c["learner"] == name}
        dims, ranks = sorted({d for d, _ in of}), sorted({r for _, r in of})
        lines += [[f"{name}, d = {d:,}", *(f"{of[d, r]:.0f}" for r in ranks)] for d in dims]
        out[name] = (math.log(of[dims[-1], ranks[0]] / of[dims[0], ranks[0]]) / math.log(dims[-1] / dims[0]),
                     math.log(of[dims[-1], ranks[-1]] / of[dims[-1], ranks[0]]) / math.log(ranks[-1] / ranks[0]))
    ours = ", ".join(f"{name}: time grows as d^{d:.2f} and r^{r:.2f}" for name, (d, r) in out.items())
    return Outcome(judged([out["flat"][0] < 1.2 and out["flat"][1] < 1.2, out["polar"][0] < 1.2 and out["polar"][1] < 2.2]),
                   ours + " (at most one and one for flat, one and two for polar)", [("microseconds of a step on a dense row", ["", *(f"rank {r}" for r in ranks)], lines)])


def convergence(bench):
    """Appendix A: the gradient of the expected cost along η_t/max(‖G‖², 1)."""
    marks = bench.pick((100, 1_000, 10_000, 100_000), (100, 2_000))

    def work(seed):
        from reproduce.plain import bounds

        return {"norms": bounds.flat_descent(seed, marks)}

    rounds = bench.rounds(range(bench.pick(10, 1)), lambda seed: bench.once(
        f"plain equation 9 with s_t, {marks[-1]} steps, seed {seed}", lambda: work(seed), plain("bounds"))["norms"])
    falls = [round[-1] < round[0] / 10 for round in rounds]
    ours = "norm of the gradient of the expected cost: " + ", ".join(
        f"{mean([round[i] for round in rounds]):.1e} after {m:,} steps" for i, m in enumerate(marks))
    return Outcome(judged(falls), f"{ours}; it falls to less than a tenth in {sum(falls)} of {len(falls)} runs")


KERNELS = {"flat": "--learner flat", "polar, λ = 0": "--learner polar --subspace-weight 0", "polar, λ = .5": "--learner polar"}


def known_pairs(path, labels, count, seed):
    """Random pairs of items and whether they are of one class: a file, and arrays."""
    import numpy as np

    numbers = np.random.default_rng(seed)
    pairs = numbers.integers(len(labels), size=(3 * count + 10, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:count]
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    with open(path, "w") as out:
        out.writelines(f"{i} {j} {'same' if s else 'different'}\n" for (i, j), s in zip(pairs, same))
    return pairs, same


def clustered(bench, name, make, options, count, seed):
    """NMI of a learned kernel, and that of the simple ones."""
    def work():
        import numpy as np

        path = make()
        header, rows = read_plain(path)
        labels = np.unique([row[header.index("label")] for row in rows], return_inverse=True)[1]
        known = bench.lab.folder / "known.txt"
        known_pairs(known, labels, count, seed)
        model = bench.lab.folder / "kernel.safetensors"
        _, cpu = bench.lab.rankfold("train", "kernel", path, "-o", model, "--pairs", known, "--seed", seed, *options.split())
        found, _ = bench.lab.rankfold("eval", model, path, "--pairs", known)
        return {"nmi": found["metrics"]["nmi"], "cpu": cpu, **{c["name"]: c["metrics"]["nmi"] for c in found["baselines"]}}
    return bench.once(f"train kernel {name} {options} --pairs {count} random ones, seed {seed}", work)


def plainly(bench, name, make, kernel_of, method, rank, alpha, count, seed):
    """The same by a plain program: `kernel_of` gives the kernel matrix of rows."""
    def work():
        import time

        import numpy as np

        from reproduce.plain import metrics

        header, rows = read_plain(make())
        place = header.index("label")
        labels = np.unique([row[place] for row in rows], return_inverse=True)[1]
        skip = {place, *(header.index(n) for n in ("split", "fold", "id") if n in header)}
        x = np.array([[float(v) for i, v in enumerate(row) if i not in skip] for row in rows])
        kernel = kernel_of(x)
        pairs, same = known_pairs(bench.lab.folder / "plain.txt", labels, count, seed)
        start = time.process_time()
        if method == "KSR":
            points = metrics.spectral_regression(kernel, pairs[same], pairs[~same], min(rank, len(kernel) - 2))
        else:
            values, vectors = np.linalg.eigh(kernel)
            factor = vectors[:, -rank:] * np.sqrt(values[-rank:].clip(0))
            gap = factor[pairs[:, 0]] - factor[pairs[:, 1]]
            bounds = ((gap ** 2).sum(1) * np.where(same, 1 - alpha, 1 + alpha)).clip(min=1e-9)
            # The slack is that of ITML's usual setting.
            points = metrics.logdet(factor, pairs, np.where(same, 1, -1), bounds, gamma=1.0, rounds=bench.pick(20, 3))
        seconds = time.process_time() - start
        return {"nmi": metrics.kmeans_nmi(points, labels, labels.max() + 1, seed=seed), "seconds": seconds}
    return bench.once(f"plain {method} {name} --rank {rank} --alpha {alpha} {count} pairs, seed {seed}", work, plain("metrics"))


def standardized(x):
    """As `--standardize global`, with a linear kernel."""
    x = x - x.mean(0)
    spread = x.std(0)
    x = x / (spread + (spread == 0))
    return x @ x.T


def gaussian(gamma):
    def kernel(x):
        import numpy as np

        squares = (x ** 2).sum(1)
        k = np.exp(-gamma * (squares[:, None] + squares - 2 * x @ x.T))
        k = k - k.mean(0)
        return k - k.mean(1)[:, None]
    return kernel


PLAINLY = ("KSR", "LogDet-KL")


def digits(bench):
    """Figure 6, right."""
    counts = bench.pick((50, 100, 200, 500, 1000, 2000, 5000), (50, 1000))

    def sample(number):
        header, rows = read(bench.data / "uci" / "pendigits.csv.gz")
        some = [row for row in rows if row[header.index("label")] in ("3", "8", "9")]
        return write(bench.lab.folder / f"digits-{number}.csv", header, random.Random(number).sample(some, 300))

    def one(seed):
        out = {}
        for count in counts:
            for name, learner in KERNELS.items():
                out[name, count] = clustered(bench, f"digits-{seed}", lambda: sample(seed),
                                             f"{learner} --rank 16 --standardize global --alpha 0.25", count, seed)
            for name in PLAINLY:
                out[name, count] = plainly(bench, f"digits-{seed}", lambda: sample(seed), standardized, name, 16, .25, count, seed)
        return out

    rounds = bench.rounds(range(bench.pick(10, 1)), one)
    found = {key: [round[key]["nmi"] for round in rounds] for key in rounds[0]}
    for count in counts:
        found["must-link components (control)", count] = [round["flat", count]["must-link"] for round in rounds]
        found["linear kernel", count] = [round["flat", count]["start"] for round in rounds]
    names = [*KERNELS, *PLAINLY, "must-link components (control)", "linear kernel"]
    last, first = counts[-1], counts[0]
    fixed = max(mean(found[n, last]) for n in ("polar, λ = 0", *PLAINLY))
    better = [mean(found[n, last]) > fixed for n in ("flat", "polar, λ = .5")]
    few = mean(found["polar, λ = 0", first]) > max(mean(found[n, first]) for n in ("flat", "polar, λ = .5"))
    chart = Chart("figure-6-right", "Digits 3, 8 and 9: clusters by the number of pairs", "pairs", "NMI",
                  {n: [(c, mean(found[n, c]), error(found[n, c])) for c in counts] for n in names}, log="x")
    lines = [[n, *(shown(found[n, c], 3) for c in counts)] for n in names]
    ours = (f"NMI at {last:,} pairs: " + ", ".join(f"{n} {shown(found[n, last], 3)}" for n in names)
            + f"; at {first}: " + ", ".join(f"{n} {shown(found[n, first], 3)}" for n in KERNELS))
    return Outcome(judged([*better, few]), ours, [("NMI", ["pairs", *map(str, counts)], lines)], [chart])


def usps(bench):
    """Figure 7."""
    counts, ranks = bench.pick((1_000, 3_000, 10_000, 30_000, 100_000), (1_000,)), bench.pick((3, 6, 10, 25), ())
    kernels = bench.pick(KERNELS, {"flat": KERNELS["flat"]})

    def test():
        header, rows = read(bench.data / "usps" / "usps.csv.gz")
        split = header.index("split")
        return write(bench.lab.folder / "usps.csv", header, [row for row in rows if row[split] == "test"], ("split",))

    def one(seed):
        out = {}
        for key, rank, count in [*((("count", c), 25, c) for c in counts), *((("rank", r), r, counts[-1]) for r in ranks)]:
            for name, learner in kernels.items():
                out[name, key] = clustered(bench, "usps", test, f"{learner} --kernel gaussian --gamma 0.001 --alpha 0.5 --rank {rank}", count, seed)
            for name in bench.pick(PLAINLY, ()):
                out[name, key] = plainly(bench, "usps", test, gaussian(.001), name, rank, .5, count, seed)
        return out

    rounds = bench.rounds(range(bench.pick(3, 1)), one)
    found = {key: [round[key]["nmi"] for round in rounds] for key in rounds[0]}
    for _, key in list(rounds[0]):
        found["kernel PCA", key] = [round["flat", key]["start"] for round in rounds]
        found["must-link components (control)", key] = [round["flat", key]["must-link"] for round in rounds]
    names = [*kernels, *bench.pick(PLAINLY, ()), "kernel PCA", "must-link components (control)"]
    charts = [Chart(f"figure-7-{axis}", f"USPS: clusters by the {words}", words, "NMI",
                    {n: [(v, mean(found[n, (axis, v)]), error(found[n, (axis, v)])) for v in values] for n in names}, log="x")
              for axis, words, values in (("count", "number of pairs", counts), ("rank", "rank", ranks)) if values]
    key = ("count", counts[-1])
    better = [mean(found[n, key]) > mean(found["kernel PCA", key]) for n in kernels if "= 0" not in n]
    if not bench.quick:
        better += [mean(found[n, key]) >= mean(found["KSR", key]) - .02 for n in ("flat", "polar, λ = .5")]
        better += [mean(found[n, key]) > mean(found["LogDet-KL", key]) for n in ("flat", "polar, λ = .5")]
    ours = f"NMI at {counts[-1]:,} pairs, rank 25: " + ", ".join(f"{n} {shown(found[n, key], 3)}" for n in names)
    tables = [(f"NMI by {words}", ["", *map(str, values)], [[n, *(shown(found[n, (axis, v)], 3) for v in values)] for n in names])
              for axis, words, values in (("count", "number of pairs, rank 25", counts), ("rank", f"rank, {counts[-1]:,} pairs", ranks)) if values]
    return Outcome(judged(better), ours, tables, charts)


def planted_kernel(seed):
    """A kernel of full rank of 52 items in three classes, which stands in for GyrB."""
    import numpy as np

    numbers = np.random.default_rng(seed)
    classes = np.repeat([0, 1, 2], (20, 17, 15))
    x = numbers.standard_normal((52, 80)) + 1.2 * numbers.standard_normal((3, 80))[classes]
    x -= x.mean(0)
    kernel = x @ x.T / 80 + 1e-3 * np.eye(52)
    return kernel, classes


def two_fold(points, classes, seed):
    """The accuracy of 5-NN by two halves."""
    import numpy as np

    from reproduce.plain import metrics

    half = np.zeros(len(classes), bool)
    half[np.random.default_rng(seed).permutation(len(classes))[:len(classes) // 2]] = True
    return 1 - mean([metrics.knn_error(points[a], classes[a], points[~a], classes[~a]) for a in (half, ~half)])


def small_kernel(bench):
    """Figure 6, left, with a planted kernel."""
    counts = bench.pick((50, 100, 200, 400, 700, 1000), (200,))

    def run(seed, count, method):
        def work():
            import time

            import numpy as np

            from reproduce.plain import metrics

            kernel, classes = planted_kernel(seed)
            numbers = np.random.default_rng([seed, count])
            every = np.array([(i, j) for i in range(52) for j in range(i)])
            pairs = every[numbers.permutation(len(every))[:count]]
            d = np.diag(kernel)
            squared = d[pairs[:, 0]] + d[pairs[:, 1]] - 2 * kernel[pairs[:, 0], pairs[:, 1]]
            if method == "LogDet-KL":
                start = time.process_time()
                points = metrics.logdet(np.eye(52), pairs, np.zeros(len(pairs)), squared, rounds=bench.pick(300, 30), tolerance=1e-4)
                seconds = time.process_time() - start
            else:
                folder = bench.lab.folder
                np.save(folder / "unit.npy", np.eye(52))
                (folder / "known.txt").write_text("".join(f"{i} {j} {np.sqrt(v):.9g}\n" for (i, j), v in zip(pairs, squared)))
                _, seconds = bench.lab.rankfold("train", "kernel", "--matrix", folder / "unit.npy", "--pairs", folder / "known.txt", "--learner",
                                                method, "--rank", 52, "-o", folder / "small.safetensors", "--precision", "f64", "--tolerance", 1e-5)
                bench.lab.rankfold("transform", folder / "small.safetensors", "-o", folder / "small.npy")
                points = np.load(folder / "small.npy")
            return {"accuracy": two_fold(points, classes, seed), "truth": two_fold(np.linalg.cholesky(kernel), classes, seed), "seconds": seconds}
        return bench.once(f"train kernel planted52-{seed} --learner {method} --rank 52, {count} distances", work,
                          plain("metrics") if method == "LogDet-KL" else None)

    methods = ("polar", "flat", "LogDet-KL")
    rounds = bench.rounds(range(bench.pick(10, 1)), lambda seed: {(m, c): run(seed, c, m) for c in counts for m in methods})
    found = {key: [round[key]["accuracy"] for round in rounds] for key in rounds[0]}
    seconds = {m: mean([round[m, counts[-1]]["seconds"] for round in rounds]) for m in methods}
    competes = [mean(found["polar", c]) >= mean(found["LogDet-KL", c]) - .03 for c in counts]
    behind = mean(found["flat", counts[0]]) < mean(found["LogDet-KL", counts[0]])
    lines = [[m, *(shown(found[m, c], 3) for c in counts), f"{seconds[m]:.2f}"] for m in methods]
    chart = Chart("figure-6-left", "A planted kernel of 52 items: 5-NN accuracy by the number of distances", "distances known", "5-NN accuracy",
                  {m: [(c, mean(found[m, c]), error(found[m, c])) for c in counts] for m in methods})
    ours = (f"accuracy at {counts[-1]} distances: " + ", ".join(f"{m} {shown(found[m, counts[-1]], 3)} ({seconds[m]:.2f} s)" for m in methods)
            + f"; polar within .03 of LogDet-KL at {sum(competes)} of {len(competes)} numbers (LogDet-KL is a plain program of NumPy)")
    return Outcome(judged([*competes, seconds["polar"] < seconds["LogDet-KL"], behind]), ours,
                   [("5-NN accuracy, two-fold", ["", *map(str, counts), "seconds at the last"], lines)], [chart])


UCI = {"iris": (3, 4), "wine": (3, 13), "ionosphere": (2, 34), "balance_scale": (3, 4), "soybean": (19, 35)}
METHODS = {"flat": "--learner flat", "polar": "--learner polar", "ITML": "--learner itml", "LEGO": "--learner lego"}
SLACKS = [10.0 ** k for k in range(-3, 4)]


def numbers(header, train, test):
    """Rows as arrays, scaled as `--standardize global` does, and classes."""
    import numpy as np

    place = header.index("label")
    skip = {place, *(header.index(n) for n in ("split", "fold") if n in header)}
    names = {name: i for i, name in enumerate(sorted({row[place] for row in train + test}))}

    def of(rows):
        x = np.array([[float(v or "nan") for i, v in enumerate(row) if i not in skip] for row in rows])
        return np.nan_to_num(x), np.array([names[row[place]] for row in rows])

    (x, c), (z, t) = of(train), of(test)
    center, spread = x.mean(0), x.std(0)
    spread[spread == 0] = 1
    return (x - center) / spread, c, (z - center) / spread, t


def plain_error(bench, name, parts, method, setting=None, directions=None):
    """The 5-NN error of LMNN or POLA; on principal directions where a number of them is given."""
    def work():
        import numpy as np

        from reproduce.plain import metrics

        x, c, z, t = numbers(*parts())
        if directions:
            axes = np.linalg.svd(x, full_matrices=False)[2][:directions].T
            x, z = x @ axes, z @ axes
        if method == "LMNN":
            factor = metrics.lmnn(x, c, iterations=bench.pick(200, 20))
        else:
            factor = metrics.pola(x, c, bench.pick(10_000, 500), setting)
        return {"error": metrics.knn_error(x @ factor, c, z @ factor, t)}
    return bench.once(f"plain {method} {name}" + (f" --margin {setting:g}" if setting else "") + (f" --directions {directions}" if directions else ""),
                      work, plain("metrics"))["error"]


def full_rank(bench):
    """Figure 8."""
    sets = bench.pick(list(UCI), ["iris", "wine"])

    def part(name, seed, turn):
        header, rows = read(bench.data / "uci" / f"{name}.csv.gz")
        both = halves(header, rows, seed)
        return header, both[turn], both[1 - turn]

    def inner(name):
        """Two halves of a training part, to choose by."""
        header, rows, _ = part(name, 0, 0)
        both = halves(header, rows, "inner")
        return [(header, both[i], both[1 - i]) for i in (0, 1)]

    def options(name, method):
        classes, features = UCI[name]
        return f"{METHODS[method]} --pairs-from random --constraints {40 * classes * (classes - 1)} --rank {features} --standardize global"

    def chosen(name, values, run):
        return min(values, key=lambda v: mean([run(v, i) for i in (0, 1)])) if not bench.quick else 1.0

    slack = {name: chosen(name, SLACKS, lambda v, i: learned(bench, f"{name}-inner.{i}", lambda: inner(name)[i],
                                                             f"{options(name, 'ITML')} --slack {v:g}")["error"]) for name in sets}
    margin = {name: chosen(name, SLACKS, lambda v, i: plain_error(bench, f"{name}-inner.{i}", lambda: inner(name)[i], "POLA", v)) for name in sets}

    def one(seed):
        out = {}
        for name in sets:
            for method in METHODS:
                words = options(name, method) + (f" --slack {slack[name]:g}" if method == "ITML" else "")
                runs = [learned(bench, f"{name}-{seed}.{t}", lambda t=t: part(name, seed, t), words) for t in (0, 1)]
                # The error of a partition is that of both of its halves.
                out[name, method] = mean([run["error"] for run in runs])
                out[name, "Euclidean"] = mean([run["baselines"]["euclid"] for run in runs])
            for method, setting in (("LMNN", None), ("POLA", margin[name])):
                out[name, method] = mean([plain_error(bench, f"{name}-{seed}.{t}", lambda t=t: part(name, seed, t), method, setting) for t in (0, 1)])
        return out

    rounds = bench.rounds(range(bench.pick(10, 1)), one)
    names = [*METHODS, "LMNN", "POLA", "Euclidean"]
    found = {key: [round[key] for round in rounds] for key in rounds[0]}
    least = [min(mean(found[n, m]) for m in ("flat", "polar")) <= min(mean(found[n, m]) for m in names) + 1e-9 for n in sets]
    lines = [[n, *(shown(found[n, m], 3) for m in names)] for n in sets]
    ours = f"flat or polar has the least error on {sum(least)} of {len(sets)} data sets: " + "; ".join(
        f"{n} {min(('flat', 'polar'), key=lambda m: mean(found[n, m]))} {mean(min((found[n, m] for m in ('flat', 'polar')), key=mean)):.3f}, best other "
        f"{min(names[2:], key=lambda m: mean(found[n, m]))} {min(mean(found[n, m]) for m in names[2:]):.3f}" for n in sets)
    return Outcome(judged([sum(least) >= len(sets) - 1]), ours, [("5-NN error", ["", *names], lines)])


def low_rank(bench):
    """Figure 9 on Isolet."""
    ranks, pairs = bench.pick((5, 10, 20, 50), (5,)), bench.pick(100_000, 1_000)

    def parts():
        header, rows = read(bench.data / "isolet" / "isolet.csv.gz")
        fold = header.index("fold")
        train = [row for row in rows if row[fold] != "5"]
        return header, random.Random(0).sample(train, bench.pick(len(train), 800)), [row for row in rows if row[fold] == "5"]

    runs = {"flat": "--learner flat", "polar": "--learner polar", "flat, online, 32 a step": "--learner flat --solver online --batch 32",
            "ITML on principal directions": "--learner itml --iterations 30", "LEGO on principal directions": "--learner lego"}
    runs = bench.pick(runs, {"flat": runs["flat"]})

    def one(seed):
        out = {}
        for r in ranks:
            for name, options in runs.items():
                told = learned(bench, "isolet", parts, f"{options} --pairs-from random --rank {r} --constraints {pairs} --standardize global --seed {seed}")
                out[name, r] = told["error"]
                out["principal directions", r] = told["baselines"]["pca"]
            if not bench.quick:
                # It draws nothing.
                out["LMNN on principal directions", r] = plain_error(bench, "isolet", parts, "LMNN", None, r)
        return out

    rounds = bench.rounds(range(bench.pick(5, 1)), one)
    found = {key: [round[key] for round in rounds] for key in rounds[0]}
    names = list(dict.fromkeys(name for name, _ in found))
    ours_names = ("flat", "polar") if not bench.quick else ("flat",)
    better = [mean(found[ours, r]) < min(mean(found[n, r]) for n in names if "principal" in n) for r in ranks[:2] for ours in ours_names]
    chart = Chart("figure-9", f"Isolet: 5-NN error by rank, {pairs:,} pairs", "rank", "5-NN error on test rows",
                  {n: [(r, mean(found[n, r]), error(found[n, r])) for r in ranks] for n in names})
    lines = [[n, *(shown(found[n, r], 3) for r in ranks)] for n in names]
    ours = "5-NN error: " + "; ".join(f"rank {r}: " + ", ".join(f"{n} {shown(found[n, r], 3)}" for n in names) for r in ranks[:2])
    return Outcome(judged(better), ours, [("5-NN error", ["", *(f"rank {r}" for r in ranks)], lines)], [chart])


def svmlight(path, features):
    """Rows of a file as an array, and classes in the order of their names."""
    import numpy as np

    with open(path) as file:
        lines = [line.split() for line in file]
    # Whether numbers start at 0 or at 1 changes no distance.
    x = np.zeros((len(lines), features + 1))
    for row, line in zip(x, lines):
        for cell in line[1:]:
            if ":" in cell and cell[0] != "#":
                j, v = cell.split(":")
                row[int(j)] = float(v)
    return x, np.unique([line[0] for line in lines], return_inverse=True)[1]


def many_features(bench):
    """Figure 9, right, with 322 documents of two newsgroups and 15,000 terms."""
    ranks, pairs = bench.pick((2, 5, 10, 20), (5,)), bench.pick(10_000, 500)
    groups = ("sci.med", "sci.space")

    def halved(seed):
        """Rows of svmlight of 161 documents of each group, in two halves."""
        name = bench.lab.folder / f"two-groups-{seed}"
        files = [name.with_name(f"{name.name}.{i}.svm") for i in (0, 1)]
        if not files[1].exists():
            with gzip.open(bench.data / "20newsgroups" / "20news-bydate.jsonl.gz", "rt") as source:
                lines = [line for line in source if json.loads(line)["label"] in groups]
            of = {group: [line for line in lines if json.loads(line)["label"] == group] for group in groups}
            chosen = [line for group in groups for line in random.Random(f"{seed}/{group}").sample(of[group], 161)]
            random.Random(seed).shuffle(chosen)
            text, vocabulary = name.with_suffix(".jsonl"), bench.lab.folder / "vocabulary.json"
            text.write_text("".join(chosen))
            if not vocabulary.exists():
                # Of the whole collection: 322 documents do not have so many terms.
                bench.lab.rankfold("vectorize", bench.data / "20newsgroups" / "20news-bydate.jsonl.gz", "-o", name.with_suffix(".all.svm"), "--fit",
                                   vocabulary, "--features", 15_000)
            rows = name.with_suffix(".svm")
            bench.lab.rankfold("vectorize", text, "-o", rows, "--vocabulary", vocabulary)
            made = rows.read_text().splitlines(True)
            for i, file in enumerate(files):
                file.write_text("".join(made[i::2]))
        return files

    def run(seed, turn, words):
        def work():
            train, test = halved(seed)[::1 if turn == 0 else -1]
            model = bench.lab.folder / "groups.safetensors"
            bench.lab.rankfold("train", "metric", train, "-o", model, *words.split())
            found, _ = bench.lab.rankfold("eval", model, test, "--train", train)
            return {"error": found["metrics"]["knn_error"]}
        return bench.once(f"train metric two-groups-{seed}.{turn} {words}", work)

    def directions(seed, turn):
        """5-NN errors on principal directions alone, by rank."""
        def work():
            import numpy as np

            from reproduce.plain import metrics

            train, test = halved(seed)[::1 if turn == 0 else -1]
            (x, c), (z, t) = (svmlight(path, 15_000) for path in (train, test))
            center = x.mean(0)
            axes = np.linalg.svd(x - center, full_matrices=False)[2]
            return {str(r): metrics.knn_error((x - center) @ axes[:r].T, c, (z - center) @ axes[:r].T, t) for r in ranks}
        return bench.once(f"plain principal directions two-groups-{seed}.{turn}", work, plain("metrics"))

    runs = {"flat": "--learner flat", "polar": "--learner polar", "ITML on principal directions": "--learner itml --iterations 30",
            "LEGO on principal directions": "--learner lego"}
    runs = bench.pick(runs, {"flat": runs["flat"]})

    def one(seed):
        out = {}
        for r in ranks:
            out["principal directions", r] = mean([directions(seed, t)[str(r)] for t in (0, 1)])
            for name, words in runs.items():
                both = [run(seed, t, f"{words} --pairs-from random --rank {r} --constraints {pairs} --seed {seed}") for t in (0, 1)]
                out[name, r] = mean([b["error"] for b in both])
        return out

    rounds = bench.rounds(range(bench.pick(10, 1)), one)
    found = {key: [round[key] for round in rounds] for key in rounds[0]}
    names = list(dict.fromkeys(name for name, _ in found))
    better = [mean(found[ours, r]) < min(mean(found[n, r]) for n in names if "principal" in n) for r in ranks[:2] for ours in bench.pick(("flat", "polar"), ("flat",))]
    chart = Chart("figure-9-prostate", f"322 documents of 15,000 terms: 5-NN error by rank, {pairs:,} pairs", "rank", "5-NN error",
                  {n: [(r, mean(found[n, r]), error(found[n, r])) for r in ranks] for n in names})
    lines = [[n, *(shown(found[n, r], 3) for r in ranks)] for n in names]
    ours = "5-NN error: " + "; ".join(f"rank {r}: " + ", ".join(f"{n} {shown(found[n, r], 3)}" for n in names) for r in ranks[:2])
    return Outcome(judged(better), ours, [("5-NN error, two-fold", ["", *(f"rank {r}" for r in ranks)], lines)], [chart])


PAPER = Paper(
    "psd", "PSD regression (2011)", "Meyer, Bonnabel, Sepulchre: Regression on fixed-rank positive semidefinite matrices: a Riemannian approach",
    [
        Algorithm("Equations 9, 10", "flat geometry, online and batch", "`train metric|kernel --learner flat`, `train similarity --learner flat`"),
        Algorithm("Equations 20, 21", "polar geometry with λ", "`--learner polar --subspace-weight`; `train similarity --learner polar-psd`"),
        Algorithm("Section 5", "full rank: flat, affine-invariant, log-Euclidean, LogDet, von Neumann", "`--learner cone-…`"),
        Algorithm("Section 6", "following a subspace (Oja)", "`online::Oja` in the library; no command"),
        Algorithm("Section 8", "mini-batches", "`train metric --solver online --batch`"),
        Algorithm("Section 8.2", "inequalities", "bounds of pairs in `train metric` and `train kernel`"),
        Algorithm("Section 8.3", "retractions qf and uf", "`--retraction`"),
        Algorithm("Equation 23", "step rule of online learning", "`--step-rule`"),
        Algorithm("Section 10", "ITML, LEGO", "`train metric --learner itml|lego`"),
        Algorithm("Section 10", "LMNN, POLA, LogDet-KL, KSR", "`reproduce/plain/metrics.py`, plain programs"),
        Algorithm("Section 10", "MVU", ""),
        Algorithm("Section 10.2", "k-NN of learned kernels", "`eval --neighbors K` of a kernel"),
    ],
    [
        Item("invariance", "Section 7", "steps do not see rotations of the data, polar steps not its scale",
             tests="`steps_do_not_see_rotations_of_the_data`, `polar_steps_do_not_see_the_scale_of_the_data`"),
        Item("convergence", "Appendix A", "online steps s_t = η_t/max(‖G_t‖², 1) converge", "reproduce/plain/bounds.py", "plain/bounds", 1, .1, convergence),
        Item("table-1", "Table 1", "costs of a step: O(dr) flat, O(dr²) polar", "cargo run --release --example psd_toys -- cost", "example/psd_toys", 1, .1, costs),
        Item("figure-3", "Figure 3", "a learned subspace fits much better than principal directions", "cargo run --release --example psd_toys -- subspace",
             "example/psd_toys", 1, .1, subspaces),
        Item("figure-4", "Figure 4", "λ has no effect on the error for tight tolerances, and one on time", "cargo run --release --example psd_toys -- lambda",
             "example/psd_toys", 1, .2, balance),
        Item("figure-5", "Figure 5", "online beats batch on 80,000 samples, and mini-batches of 32 improve", "cargo run --release --example psd_toys -- minibatch",
             "example/psd_toys", 3, .2, minibatches),
        Item("figure-6-left", "Figure 6, left", "GyrB: polar competes with LogDet-KL and is much faster, flat is worse with few distances; here a planted "
             "kernel of 52 items", "train kernel --matrix I.npy --pairs distances.txt --rank 52; reproduce/plain/metrics.py", "kernel", 5, .2, small_kernel),
        Item("figure-6-right", "Figure 6, right", "flat and λ = .5 beat λ = 0, KSR and LogDet-KL with many pairs; λ = 0 is best with few",
             "train kernel --rank 16 --alpha 0.25 --pairs …", "kernel", 1, .2, digits),
        Item("figure-7", "Figure 7", "USPS: with many pairs both geometries are as good as KSR, and beat LogDet-KL and kernel PCA",
             "train kernel --kernel gaussian --gamma 0.001 --alpha 0.5 --pairs …", "kernel", 60, .3, usps),
        Item("figure-8", "Figure 8", "flat and polar have the least error on 4 of 5 data sets",
             "train metric --pairs-from random --constraints 40c(c−1); reproduce/plain/metrics.py", "metric", 25, .3, full_rank),
        Item("figure-9", "Figure 9, Isolet", "at low rank both are far better than methods on principal directions",
             "train metric --pairs-from random --constraints 100000", "metric", 60, .5, low_rank),
        Item("figure-9-prostate", "Figure 9, Prostate", "the same with 15,154 features; here 322 documents of 15,000 terms",
             "train metric --pairs-from random --constraints 10000", "metric", 20, .3, many_features),
    ])
