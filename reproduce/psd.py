"""PSD: regression on fixed-rank positive semidefinite matrices."""

import csv
import gzip
import random

from reproduce.figure import Chart
from reproduce.items import Algorithm, Item, Outcome, Paper, judged
from reproduce.lab import error, mean, shown


def read(path):
    with gzip.open(path, "rt", newline="") as file:
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


UCI = {"iris": (3, 4), "wine": (3, 13), "ionosphere": (2, 34), "balance_scale": (3, 4), "soybean": (19, 35)}
METHODS = {"flat": "--learner flat", "polar": "--learner polar", "ITML": "--learner itml", "LEGO": "--learner lego"}


def full_rank(bench):
    """Figure 8."""
    sets, partitions = bench.pick(list(UCI), ["iris", "wine"]), range(bench.pick(10, 1))
    found = {}
    for name in sets:
        classes, features = UCI[name]
        pairs = 40 * classes * (classes - 1)

        def part(seed, turn, name=name):
            header, rows = read(bench.data / "uci" / f"{name}.csv.gz")
            both = halves(header, rows, seed)
            return header, both[turn], both[1 - turn]

        for method, options in METHODS.items():
            options = f"{options} --pairs-from random --constraints {pairs} --rank {features} --standardize global"
            runs = [learned(bench, f"{name}-{s}.{t}", lambda s=s, t=t: part(s, t), options) for s in partitions for t in (0, 1)]
            # An error of a partition is that of both of its halves.
            found[name, method] = [mean([a["error"], b["error"]]) for a, b in zip(runs[::2], runs[1::2])]
            found[name, "Euclidean"] = [mean([a["baselines"]["euclid"], b["baselines"]["euclid"]]) for a, b in zip(runs[::2], runs[1::2])]
    names = [*METHODS, "Euclidean"]
    least = [min(mean(found[n, m]) for m in ("flat", "polar")) <= min(mean(found[n, m]) for m in names) + 1e-9 for n in sets]
    lines = [[n, *(shown(found[n, m], 3) for m in names)] for n in sets]
    return Outcome(judged([sum(least) >= len(sets) - 1]), f"flat or polar has the least error on {sum(least)} of {len(sets)} data sets",
                   [("5-NN error", ["", *names], lines)])


def low_rank(bench):
    """Figure 9 on Isolet."""
    ranks, pairs = bench.pick((5, 10, 20, 50), (5,)), bench.pick(100_000, 1_000)

    def parts():
        header, rows = read(bench.data / "isolet" / "isolet.csv.gz")
        fold = header.index("fold")
        train = [row for row in rows if row[fold] != "5"]
        return header, random.Random(0).sample(train, bench.pick(len(train), 800)), [row for row in rows if row[fold] == "5"]

    runs = {"flat": "--learner flat", "polar": "--learner polar", "ITML on principal directions": "--learner itml --iterations 30",
            "LEGO on principal directions": "--learner lego"}
    runs = bench.pick(runs, {"flat": runs["flat"]})
    seeds, found = range(bench.pick(5, 1)), {}
    for r in ranks:
        for name, options in runs.items():
            told = [learned(bench, "isolet", parts, f"{options} --pairs-from random --rank {r} --constraints {pairs} "
                            f"--standardize global --seed {s}") for s in seeds]
            found[name, r] = [t["error"] for t in told]
            found["principal directions", r] = [t["baselines"]["pca"] for t in told]
    names = [*runs, "principal directions"]
    better = [mean(found["flat", r]) < min(mean(found[n, r]) for n in names if "principal" in n) for r in ranks[:2]]
    chart = Chart("figure-9", f"Isolet: 5-NN error by rank, {pairs:,} pairs", "rank", "5-NN error on test rows",
                  {n: [(r, mean(found[n, r]), error(found[n, r])) for r in ranks] for n in names})
    lines = [[n, *(shown(found[n, r], 3) for r in ranks)] for n in names]
    return Outcome(judged(better), f"flat {mean(found['flat', ranks[0]]):.3f} at rank {ranks[0]}, principal directions "
                   f"{mean(found['principal directions', ranks[0]]):.3f}", [("5-NN error", ["", *(f"rank {r}" for r in ranks)], lines)], [chart])


KERNELS = {"flat": "--learner flat", "polar, λ = 0": "--learner polar --subspace-weight 0", "polar, λ = .5": "--learner polar"}


def clustered(bench, name, make, options):
    def work():
        path = make()
        model = bench.lab.folder / "kernel.safetensors"
        _, cpu = bench.lab.rankfold("train", "kernel", path, "-o", model, *options.split())
        found, _ = bench.lab.rankfold("eval", model, path)
        return {"nmi": found["metrics"]["nmi"], "cpu": cpu, **{c["name"]: c["metrics"]["nmi"] for c in found["baselines"]}}
    return bench.once(f"train kernel {name} {options}", work)


def digits(bench):
    """Figure 6, right."""
    samples, counts = range(bench.pick(10, 1)), bench.pick((0, 50, 100, 200, 500, 1000, 2000, 5000), (50, 1000))

    def sample(number):
        header, rows = read(bench.data / "uci" / "pendigits.csv.gz")
        some = [row for row in rows if row[0] in ("3", "8", "9")]
        return write(bench.lab.folder / f"digits-{number}.csv", header, random.Random(number).sample(some, 300))

    found = {}
    for count in counts:
        for name, learner in KERNELS.items():
            runs = [clustered(bench, f"digits-{s}", lambda s=s: sample(s), f"{learner} --rank 16 --standardize global --alpha 0.25 "
                              f"--constraints {count} --seed {s}") for s in samples]
            found[name, count] = [run["nmi"] for run in runs]
        found["must-link components (control)", count] = [run["must-link"] for run in runs]
    names = [*KERNELS, "must-link components (control)"]
    last = counts[-1]
    better = [mean(found[n, last]) > mean(found["polar, λ = 0", last]) for n in ("flat", "polar, λ = .5")]
    few = mean(found["polar, λ = 0", counts[0 if bench.quick else 1]]) > mean(found["flat", counts[0 if bench.quick else 1]])
    chart = Chart("figure-6-right", "Digits 3, 8 and 9: clusters by the number of pairs", "pairs", "NMI",
                  {n: [(max(c, 1), mean(found[n, c]), error(found[n, c])) for c in counts] for n in names}, log="x")
    lines = [[n, *(shown(found[n, c], 3) for c in counts)] for n in names]
    return Outcome(judged([*better, few]), f"NMI at {last:,} pairs: " + ", ".join(f"{n} {mean(found[n, last]):.3f}" for n in names),
                   [("NMI", ["pairs", *map(str, counts)], lines)], [chart])


def usps(bench):
    """Figure 7."""
    counts, ranks = bench.pick((1_000, 3_000, 10_000, 30_000, 100_000), (1_000,)), bench.pick((3, 6, 10, 25), ())

    def test():
        header, rows = read(bench.data / "usps" / "usps.csv.gz")
        split = header.index("split")
        return write(bench.lab.folder / "usps.csv", header, [row for row in rows if row[split] == "test"])

    kernels = bench.pick(KERNELS, {"flat": KERNELS["flat"]})
    seeds, found = range(bench.pick(3, 1)), {}
    for key, rank, count in [*((("count", c), 25, c) for c in counts), *((("rank", r), r, 100_000) for r in ranks)]:
        for name, learner in kernels.items():
            runs = [clustered(bench, "usps", test, f"{learner} --kernel gaussian --gamma 0.001 --alpha 0.5 --rank {rank} "
                              f"--constraints {count} --seed {s}") for s in seeds]
            found[name, key] = [run["nmi"] for run in runs]
        found["kernel PCA", key] = [run["start"] for run in runs]
    names = [*kernels, "kernel PCA"]
    charts = [Chart(f"figure-7-{axis}", f"USPS: clusters by the {words}", words, "NMI",
                    {n: [(v, mean(found[n, (axis, v)]), error(found[n, (axis, v)])) for v in values] for n in names}, log="x")
              for axis, words, values in (("count", "number of pairs", counts), ("rank", "rank", ranks)) if values]
    better = [mean(found[n, ("count", counts[-1])]) > mean(found["kernel PCA", ("count", counts[-1])]) for n in kernels]
    ours = f"NMI at {counts[-1]:,} pairs: " + ", ".join(f"{n} {mean(found[n, ('count', counts[-1])]):.3f}" for n in names)
    return Outcome(judged(better), ours, [], charts)


PAPER = Paper(
    "psd", "PSD regression (2011)", "Meyer, Bonnabel, Sepulchre: Regression on fixed-rank positive semidefinite matrices: a Riemannian approach",
    [
        Algorithm("Equations 9, 10", "flat geometry, online and batch", "`train metric|kernel --learner flat`, `train similarity --learner flat`"),
        Algorithm("Equations 20, 21", "polar geometry with λ", "`--learner polar --subspace-weight`"),
        Algorithm("Section 5", "full rank: flat, affine-invariant, log-Euclidean, LogDet, von Neumann", "`--learner cone-…`"),
        Algorithm("Section 6", "following a subspace (Oja)", "`online::Oja` in the library; no command"),
        Algorithm("Section 8", "mini-batches", "`train metric --solver online --batch`"),
        Algorithm("Section 8.2", "inequalities", "bounds of pairs in `train metric` and `train kernel`"),
        Algorithm("Section 8.3", "retractions qf and uf", "`--retraction`"),
        Algorithm("Equation 23", "step rule of online learning", "`--step-rule`"),
        Algorithm("Section 10", "ITML, LEGO", "`train metric --learner itml|lego`"),
        Algorithm("Section 10", "LMNN, POLA, LogDet-KL, KSR, MVU", ""),
        Algorithm("Section 10.2", "k-NN of learned kernels", ""),
    ],
    [
        Item("invariance", "Section 7", "steps do not see rotations of the data, polar steps not its scale",
             tests="`steps_do_not_see_rotations_of_the_data`, `polar_steps_do_not_see_the_scale_of_the_data`"),
        Item("convergence", "Appendix A", "online steps s_t = η_t/max(‖G_t‖², 1) converge"),
        Item("table-1", "Table 1", "costs of a step: O(dr) flat, O(dr²) polar", "cargo bench --bench psd"),
        Item("figure-3", "Figure 3", "a learned subspace fits much better than principal directions", "cargo run --release --example psd_toys -- subspace"),
        Item("figure-4", "Figure 4", "λ has no effect on the error for tight tolerances, and one on time", "cargo run --release --example psd_toys -- lambda"),
        Item("figure-5", "Figure 5", "online beats batch on 80,000 samples, and mini-batches of 32 improve", "cargo run --release --example psd_toys -- minibatch"),
        Item("figure-6-left", "Figure 6, left", "GyrB: polar competes with LogDet-KL and is much faster; needs a stand-in of 52 items"),
        Item("figure-6-right", "Figure 6, right", "flat and λ = .5 beat λ = 0 with many pairs; λ = 0 is best with few",
             "train kernel --rank 16 --alpha 0.25", "kernel", 60, .5, digits),
        Item("figure-7", "Figure 7", "USPS: with many pairs both geometries are as good as KSR, and beat kernel PCA",
             "train kernel --kernel gaussian --gamma 0.001 --alpha 0.5", "kernel", 240, 1, usps),
        Item("figure-8", "Figure 8", "flat and polar have the least error on 4 of 5 data sets",
             "train metric --pairs-from random --constraints 40c(c−1)", "metric", 240, .5, full_rank),
        Item("figure-9", "Figure 9, Isolet", "at low rank both are far better than methods on principal directions",
             "train metric --pairs-from random --constraints 100000", "metric", 400, 1, low_rank),
        Item("figure-9-prostate", "Figure 9, Prostate", "the same with 15,154 features; needs a stand-in"),
    ])
