#!/usr/bin/env python3
"""Time and error of metric learning beside other programs, to docs/results/metric-speed.md.

    python3 -m venv peers && peers/bin/pip install -r scripts/metric_speed.txt
    peers/bin/python scripts/metric_speed.py DATA

DATA has the folder isolet. All programs get the same standardized rows of folds 1-4 and
rank 20; the measure is the 5-NN error on fold 5 against all rows of folds 1-4. Peers
that would take hours on all rows get the first ROWS of a fixed shuffle, and rankfold is
run on these too.
"""

import argparse
import csv
import gzip
import importlib.metadata
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy
from metric_learn import LMNN
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/results/metric-speed.md"
RANK = 20


def isolet(data):
    with gzip.open(data / "isolet/isolet.csv.gz", "rt", newline="") as file:
        header, *rows = csv.reader(file)
    table = numpy.array(rows, float)
    fold, label = table[:, header.index("fold")], table[:, header.index("label")]
    features = [i for i, name in enumerate(header) if name not in ("fold", "label")]
    x, train = table[:, features], fold < 5
    mean, scale = x[train].mean(0), x[train].std(0)
    x = (x - mean) / numpy.where(scale > 0, scale, 1)
    return (x[train], label[train].astype(int)), (x[~train], label[~train].astype(int))


def error(project, train, test):
    votes = KNeighborsClassifier(5).fit(project(train[0]), train[1])
    return 1 - votes.score(project(test[0]), test[1])


def peer(model, some, train, test):
    start = time.perf_counter()
    model.fit(*some)
    seconds = time.perf_counter() - start
    return seconds, error(model.transform, train, test)


def write(path, rows):
    x, y = rows
    with open(path, "w") as file:
        file.write("label," + ",".join(f"f{j}" for j in range(x.shape[1])) + "\n")
        for label, row in zip(y, x):
            file.write(f"{label}," + ",".join(map(repr, row.tolist())) + "\n")


def ours(binary, folder, some, train, test, *options):
    """Seconds without reading the file, which the others have in memory, and the error."""
    rows, model = folder / "rows.csv", folder / "model.safetensors"
    write(rows, some)
    run = lambda *more: json.loads(
        subprocess.run(
            [str(part) for part in (binary, "train", "metric", rows, "-o", model, "--rank", RANK, *more, "--json", "--quiet")],
            capture_output=True,
            check=True,
        ).stdout
    )["seconds"]
    # Nothing but reading and writing: no iteration from the identity.
    reading = min(run("--init", "identity", "--steps", "0") for _ in range(2))
    whole = min(run(*options) for _ in range(2))
    points = []
    for name, part in (("train", train), ("test", test)):
        write(rows, part)
        out = folder / f"{name}.npy"
        subprocess.run([binary, "transform", model, rows, "-o", out, "--quiet"], capture_output=True, check=True)
        points.append(numpy.load(out))
    votes = KNeighborsClassifier(5).fit(points[0], train[1])
    return whole - reading, 1 - votes.score(points[1], test[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/rankfold")
    parser.add_argument("--rows", type=int, default=1500)
    options = parser.parse_args()
    train, test = isolet(options.data)
    order = numpy.random.default_rng(0).permutation(len(train[1]))[:options.rows]
    some = train[0][order], train[1][order]
    lines = []

    def add(name, rows, found):
        seconds, wrong = found
        lines.append(f"| {name} | {rows:,} | {seconds:.2f} | {wrong:.3f} |")
        print(lines[-1], flush=True)

    with tempfile.TemporaryDirectory() as folder:
        mine = lambda rows, *more: ours(options.binary, Path(folder), rows, train, test, *more)
        n, m = len(order), len(train[1])
        random = ("--learner", "flat", "--pairs-from", "random", "--constraints", "100000")
        add("rankfold, flat, 100,000 random pairs, 50 iterations", m, mine(train, *random, "--steps", "50"))
        add("rankfold, flat, 100,000 random pairs, iterations chosen", m, mine(train, *random))
        add("rankfold, flat, nearest rows, all chosen (default)", m, mine(train))
        add("rankfold, flat, nearest rows, all chosen (default)", n, mine(some))
        nca = NeighborhoodComponentsAnalysis(n_components=RANK, init="pca", random_state=0)
        add("scikit-learn NCA", n, peer(nca, some, train, test))
        lmnn = LMNN(n_components=RANK, init="pca", random_state=0)
        add("metric-learn LMNN", n, peer(lmnn, some, train, test))
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("scikit-learn", "metric-learn", "numpy")
    )
    PAGE.write_text(f"""# Metric learning: seconds beside other programs

    python3 -m venv peers && peers/bin/pip install -r scripts/metric_speed.txt
    peers/bin/python scripts/metric_speed.py DATA

Isolet, folds 1–4, standardized, rank 20, one run on two cores that had other work as well; {versions}, with their own
defaults and a start from PCA. Seconds of learning, without reading files. The 5-NN error is
that of fold 5 against all rows of folds 1–4.

| | rows | seconds | 5-NN error |
|---|---|---|---|
""" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
