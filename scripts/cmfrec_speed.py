#!/usr/bin/env python3
"""Alternating least squares against cmfrec, to docs/results/ratings-speed.md.

    python3.11 -m venv cmf
    cmf/bin/pip install numpy==2.4.6 scipy==1.17.1 pandas==3.1.1 cython==3.3.1 \\
        threadpoolctl==3.8.0 findblas==0.1.26.post1 setuptools==65.5.0 wheel==0.48.0
    cmf/bin/pip install --no-build-isolation cmfrec==3.5.1.post14
    cmf/bin/python scripts/cmfrec_speed.py --keep speed.json

cmfrec is compiled from source, which takes some minutes. Both programs have the same
training rows of MovieLens 1M, biases and two threads. The penalty of each is the best
of a grid on a tenth of the training rows; then they are trained on all of them, in
turn and --rounds times in changing order, of which the fastest counts. --keep FILE stores the figures,
so that the page can be made again without the runs.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/results/ratings-speed.md"
MARK = "<!-- end of what scripts/cmfrec_speed.py writes -->"

VERSION = "3.5.1.post14"
RANK, THREADS, SEED = 10, 2, 0
# λ for each row, and λ·n^½ for a row with n ratings.
THEIR_GRID = [3, 4.5, 7, 8.5, 10, 12, 15]
OUR_GRID = [0.5, 0.6, 0.75, 0.9, 1.1, 1.35, 1.6]
THEIR_ITERATIONS = [5, 10, 15, 30]
OUR_ITERATIONS = [3, 5, 10, 15, 20, 30]
# 20 is the default, and `bayes` is the default learner.
BAYES_ITERATIONS = [3, 5, 10, 20]

# RMSE that counts as equal.
SAME = 5e-5
OURS = ["`als`", "`bayes --no-implicit`", "`bayes`"]

LEAN = dict(precompute_for_predictions=False, produce_dicts=False)
PEERS = {
    "Cholesky": dict(use_cg=False, **LEAN),
    "conjugate gradient, Cholesky at the end": dict(use_cg=True, finalize_chol=True, **LEAN),
    "conjugate gradient only": dict(use_cg=True, finalize_chol=False, **LEAN),
    "Cholesky, implicit features": dict(use_cg=False, add_implicit_features=True, **LEAN),
}


class Ours:
    def __init__(self, binary, folder):
        self.binary, self.model = binary, folder / "model.safetensors"

    def run(self, *arguments):
        command = [str(self.binary), *map(str, arguments), "--json"]
        out = subprocess.run(command, capture_output=True, text=True)
        if out.returncode:
            raise SystemExit(f"{' '.join(command)}\n{out.stderr}")
        return json.loads(out.stdout)

    def fit(self, train, test, options):
        found = self.run("train", "completion", train, "-o", self.model, "--rank", RANK,
                         "--threads", THREADS, *options.split())
        measured = self.run("eval", self.model, test)
        return {"seconds": found["seconds"] - found["reading_seconds"],
                "iterations": found["steps"], "rmse": measured["metrics"]["rmse"]}


class Theirs:
    def __init__(self):
        import cmfrec
        import numpy
        import scipy.sparse
        from importlib.metadata import version
        if version("cmfrec") != VERSION:
            raise SystemExit(f"cmfrec is {version('cmfrec')} and not {VERSION}")
        self.cmfrec, self.numpy, self.sparse = cmfrec, numpy, scipy.sparse
        self.read = {}

    def rows(self, file):
        if file not in self.read:
            self.read[file] = self.numpy.loadtxt(file, delimiter=",", skiprows=1, usecols=(0, 1, 2))
        rows = self.read[file]
        return rows[:, 0].astype("int32"), rows[:, 1].astype("int32"), rows[:, 2]

    def fit(self, train, test, options):
        users, items, ratings = self.rows(train)
        known = self.sparse.coo_matrix((ratings, (users, items)), shape=(6041, 3953))
        model = self.cmfrec.CMF(k=RANK, nthreads=THREADS, random_state=1, verbose=False, **options)
        start = time.perf_counter()
        model.fit(known)
        seconds = time.perf_counter() - start
        users, items, ratings = self.rows(test)
        errors = self.numpy.clip(model.predict(users, items), 1, 5) - ratings
        return {"seconds": seconds, "iterations": options["niter"],
                "rmse": float(self.numpy.sqrt((errors ** 2).mean()))}


class Lab:
    """Makes runs, each once."""

    def __init__(self, binary, data, keep, folder):
        self.keep, self.kept = keep, {}
        if keep and keep.exists():
            self.kept = json.loads(keep.read_text())
        self.ours, self.theirs = Ours(binary, folder), None
        whole, inner = folder / "whole", folder / "inner"
        self.ours.run("split", data / "movielens/ml-1m.csv.gz", "-o", whole,
                      "--test", 0.1, "--seed", SEED)
        subprocess.run(["gunzip", *map(str, folder.glob("*.gz"))], check=True)
        self.whole = [folder / "whole.train.csv", folder / "whole.test.csv"]
        self.ours.run("split", self.whole[0], "-o", inner, "--test", 0.1, "--seed", SEED)
        self.inner = [folder / "inner.train.csv", folder / "inner.test.csv"]

    def fit(self, part, options, turn=0):
        """One run: of cmfrec if the options are a dictionary."""
        key = f"{part} {turn} {options}"
        if key not in self.kept:
            if isinstance(options, dict) and not self.theirs:
                self.theirs = Theirs()
            who = self.theirs if isinstance(options, dict) else self.ours
            self.kept[key] = {**who.fit(*getattr(self, part), options), "load": os.getloadavg()[0]}
            print(key, self.kept[key], flush=True)
            if self.keep:
                self.keep.write_text(json.dumps(self.kept))
        return self.kept[key]

    def their_penalty(self, name):
        tried = {v: self.fit("inner", {**PEERS[name], "lambda_": v, "niter": 15})["rmse"]
                 for v in THEIR_GRID}
        return min(tried, key=tried.get)

    def our_penalty(self):
        tried = {v: self.fit("inner", f"--learner als --regularization {v} --iterations 15")["rmse"]
                 for v in OUR_GRID}
        return min(tried, key=tried.get)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def edge(value, tried):
    return f"{value:g}" + ("*" if value in (tried[0], tried[-1]) else "")


def measure(lab, rounds):
    """All settings in turn, and each at its fastest."""
    penalty = lab.our_penalty()
    runs = []
    for name in PEERS:
        theirs = lab.their_penalty(name)
        for n in THEIR_ITERATIONS:
            runs.append((f"cmfrec, {name}", edge(theirs, THEIR_GRID),
                         {**PEERS[name], "lambda_": theirs, "niter": n}))
    for n in OUR_ITERATIONS:
        runs.append(("`als`", edge(penalty, OUR_GRID),
                     f"--learner als --regularization {penalty} --iterations {n}"))
    for n in BAYES_ITERATIONS:
        runs.append(("`bayes --no-implicit`", "–",
                     f"--learner bayes --no-implicit --iterations {n}"))
    for n in BAYES_ITERATIONS:
        runs.append(("`bayes`", "–", f"--learner bayes --iterations {n}"))
    found = []
    for turn in range(rounds):
        # In another order each time, as the machine has other work too.
        for run in random.Random(turn).sample(runs, len(runs)):
            lab.fit("whole", run[2], turn)
    for name, value, options in runs:
        turns = [lab.fit("whole", options, turn) for turn in range(rounds)]
        best = min(turns, key=lambda t: t["seconds"])
        found.append({"name": name, "penalty": value, **best})
    return found


def compared(found):
    """For every run of cmfrec, by how much our fastest that is as good is faster."""
    rows = []
    for them in found:
        if not them["name"].startswith("cmfrec"):
            continue
        row = [them["name"][8:], them["penalty"], them["iterations"], f"{them['rmse']:.4f}", f"{them['seconds']:.2f}"]
        for learner in OURS:
            good = [f for f in found if f["name"] == learner and f["rmse"] < them["rmse"] + SAME]
            us = min(good, key=lambda f: f["seconds"], default=None)
            row.append(f"{them['seconds'] / us['seconds']:.1f} ({us['iterations']})" if us else "–")
        rows.append(row)
    return table(["cmfrec", "penalty", "iterations", "test RMSE", "s", *OURS], rows)


def goal(found, learner):
    """What a learner does at the lowest RMSE of cmfrec without implicit features."""
    them = min((f for f in found if f["name"].startswith("cmfrec") and "implicit" not in f["name"]),
               key=lambda f: f["rmse"])
    good = [f["seconds"] for f in found if f["name"] == learner and f["rmse"] < them["rmse"] + SAME]
    if not good:
        return f"{learner} has no run as good"
    return f"{learner} is {them['seconds'] / min(good):.1f} times faster"


def page(lab, rounds):
    found = measure(lab, rounds)
    loads = [run["load"] for key, run in lab.kept.items() if key.startswith("whole")]
    rows = [[f["name"], f["penalty"], f["iterations"], f"{f['rmse']:.4f}", f"{f['seconds']:.2f}"]
            for f in found if f["name"] in OURS]
    return f"""# The speed of learning ratings

## Against cmfrec

MovieLens 1M, a tenth of the ratings for test (`rankfold split --test 0.1 --seed {SEED}`), rank {RANK}, biases,
{THREADS} threads, cmfrec {VERSION} compiled on the same machine. This part is made by

```
cmf/bin/python scripts/cmfrec_speed.py --keep speed.json
```

in the environment that the script describes. Seconds are those of learning alone: `fit` of a sparse
matrix in memory there, `seconds` less `reading_seconds` here; the fastest of {rounds} runs, all in turn and in changing
order on a shared machine with 2 cores, whose load was {min(loads):.1f} to {max(loads):.1f} meanwhile. The penalty is the best of {len(THEIR_GRID)} for each way of cmfrec (λ a row:
{', '.join(f'{v:g}' for v in THEIR_GRID)}) and of {len(OUR_GRID)} for `als` (λ·n^½ for a row with n ratings:
{', '.join(f'{v:g}' for v in OUR_GRID)}), with 15 iterations, on a tenth of the training ratings; an asterisk marks
the edge of a grid. Both grids were moved once after a first look at the same held-out ratings; cmfrec with penalties
scaled by n (`scale_lam`, 8 settings), or smaller ones for biases (3), was no better there. Predictions of both are clipped to 1 to 5. cmfrec learns in single precision, its default.

The last three columns say how many times faster our fastest run with the same RMSE or a lower one is, and its
iterations; a dash is for none as good. Such runs are picked by their test RMSE. `bayes` finds its penalties
itself; without `--no-implicit` it learns also from which items were rated, as cmfrec does with implicit features.

{compared(found)}
At the lowest RMSE of cmfrec without implicit features, {goal(found, "`als`")} and
{goal(found, "`bayes --no-implicit`")}. The goal was 5.

{table(["rankfold", "penalty", "iterations", "test RMSE", "s"], rows)}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=lambda path: Path(path).resolve(),
                        default=ROOT / "target/release/rankfold")
    parser.add_argument("--data", type=Path,
                        default=Path(os.environ.get("RANKFOLD_DATA", ROOT / "../shared/data")))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    rest = PAGE.read_text().partition(MARK)[2] if PAGE.exists() else ""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(arguments.binary, arguments.data, arguments.keep, Path(folder))
        text = page(lab, arguments.rounds)
    PAGE.write_text(text.rstrip() + f"\n\n{MARK}{rest.rstrip()}\n")
    print(PAGE)


if __name__ == "__main__":
    main()
