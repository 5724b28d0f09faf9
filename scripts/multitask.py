#!/usr/bin/env python3
"""Many tasks in one subspace: docs/results/multitask.md.

    python3 scripts/multitask.py [--data DATA] [--seeds 10] [--keep multitask.json]

School and Parkinsons with the release binary: in each task a fifth of the rows is the test
part (`rankfold split --by`), seeds 0 to 9. Every figure has its baselines beside it, fitted to
the same rows. Then schools that training never saw, from 5, 10 and 20 of their pupils. DATA is
$RANKFOLD_DATA or ../shared/data. --keep FILE stores the figures of every run, so that the page
can be made again without them; the file is used only with the binary that made it.
"""

import argparse
import csv
import gzip
import hashlib
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/rankfold"
PAGE = ROOT / "docs/results/multitask.md"

SETS = {
    "School": ("school/school.csv.gz", "task", "y", []),
    "Parkinsons": ("parkinsons/parkinsons_updrs.csv.gz", "subject#", "total_UPDRS", ["motor_UPDRS"]),
}
RANKS = [3, 5, 7, 9]
PLAIN = "--standardize none --no-bias --no-common --regularization 0.1"
RECIPES = {"default": "", "without a common part": "--no-common", "plain": PLAIN}
BASELINES = ["mean", "pooled", "ridge", "alternating"]
FEW = [5, 10, 20]
MASK = (1 << 64) - 1


def key(seed, row):
    """The portable key of a row, by which parts are split."""
    z = ((seed << 40) + row + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Lab:
    """Runs each experiment once."""

    def __init__(self, data, folder, keep):
        self.data, self.folder, self.keep = data, folder, keep
        self.binary = hashlib.sha256(BINARY.read_bytes()).hexdigest()[:16]
        self.kept = {}
        if keep and keep.exists():
            stored = json.loads(keep.read_text())
            if stored["binary"] == self.binary:
                self.kept = stored["runs"]

    def command(self, *arguments):
        command = [str(BINARY), *map(str, arguments), "--json", "--quiet"]
        out = subprocess.run(command, capture_output=True, text=True)
        if out.returncode:
            raise SystemExit(f"{' '.join(command)}\n{out.stderr}")
        return json.loads(out.stdout)

    def once(self, name, work):
        if name not in self.kept:
            self.kept[name] = work()
            if self.keep:
                self.keep.write_text(json.dumps({"binary": self.binary, "runs": self.kept}))
        return self.kept[name]

    def parts(self, name, seed):
        """The training and the test part of a data set."""
        path, task, _, _ = SETS[name]
        prefix = self.folder / f"{name}-{seed}"
        train, test = Path(f"{prefix}.train.csv.gz"), Path(f"{prefix}.test.csv.gz")
        if not train.exists():
            split = ["split", self.data / path, "-o", prefix, "--test", "0.2"]
            self.command(*split, "--seed", seed, "--by", task)
        return train, test

    def train(self, name, rows, model, rank, options):
        _, task, target, ignored = SETS[name]
        more = [word for column in ignored for word in ("--ignore-column", column)]
        columns = ["--task-column", task, "--target-column", target, *more]
        return self.command("train", "multitask", rows, "-o", model, "--rank", rank, *columns, *options.split())

    def fit(self, name, seed, rank, recipe):
        """NMSE of a recipe and of the baselines on its scale."""

        def work():
            train, test = self.parts(name, seed)
            model = self.folder / "m.safetensors"
            trained = self.train(name, train, model, rank, RECIPES[recipe])
            baselines = ["--train", train] if rank == RANKS[0] else []
            found = self.command("eval", model, test, *baselines)
            return {
                "nmse": found["metrics"]["nmse"],
                "seconds": trained["seconds"],
                "regularization": trained["regularization"],
                "standardize": trained["standardize"],
                "baselines": {c["name"]: c["metrics"]["nmse"] for c in found["baselines"]},
            }

        return self.once(f"{name} {seed} {rank} {recipe}", work)

    def new_tasks(self, name, seed, rank):
        """NMSE on tasks that training never saw, from a few rows of each."""

        def work():
            path, task, _, _ = SETS[name]
            with gzip.open(self.data / path, "rt") as file:
                header, *rows = csv.reader(file)
            column = header.index(task)
            names = list(dict.fromkeys(row[column] for row in rows))
            order = sorted(range(len(names)), key=lambda t: key(seed, t))
            new = {names[t] for t in order[: len(names) // 5]}
            of_task = {}
            for i, row in enumerate(rows):
                of_task.setdefault(row[column], []).append((key(seed, i), row))

            def write(stem, chosen):
                out = self.folder / f"{stem}.csv"
                with out.open("w", newline="") as file:
                    csv.writer(file).writerows([header, *chosen])
                return out

            old = write("old", [row for row in rows if row[column] not in new])
            ranked = {t: [r for _, r in sorted(of_task[t])] for t in new}
            rest = write("rest", [r for t in ranked for r in ranked[t][max(FEW) :]])
            model, grown = self.folder / "m.safetensors", self.folder / "grown.safetensors"
            self.train(name, old, model, rank, "")
            out = {}
            for count in FEW:
                few = write("few", [r for t in ranked for r in ranked[t][:count]])
                self.command("update", model, few, "-o", grown)
                found = self.command("eval", grown, rest, "--train", few)
                out[str(count)] = found["metrics"]["nmse"]
                for baseline in found["baselines"]:
                    out[f"{count} {baseline['name']}"] = baseline["metrics"]["nmse"]
            return out

        return self.once(f"{name} {seed} {rank} new", work)


def shown(values):
    """Mean of some figures."""
    return f"{statistics.mean(values):.4f}".lstrip("0")


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    data = os.environ.get("RANKFOLD_DATA", ROOT.parent / "shared/data")
    parser.add_argument("--data", type=Path, default=Path(data))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    seeds = range(options.seeds)
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(options.data, Path(folder), options.keep)
        page = make(lab, seeds)
    PAGE.write_text(page)
    print(PAGE)


def make(lab, seeds):
    recipes, baselines, better = [], [], []
    for name in SETS:
        for recipe in RECIPES:
            cells = [shown([lab.fit(name, s, r, recipe)["nmse"] for s in seeds]) for r in RANKS]
            recipes.append([name, recipe, *cells])
        for recipe in ("default", "plain"):
            found = [lab.fit(name, s, RANKS[0], recipe)["baselines"] for s in seeds]
            baselines.append([name, recipe, *(shown([f[c] for f in found]) for c in BASELINES)])
        for rank in RANKS:
            fits = [lab.fit(name, s, rank, "default") for s in seeds]
            pooled = [lab.fit(name, s, RANKS[0], "default")["baselines"]["pooled"] for s in seeds]
            wins = sum(f["nmse"] < p for f, p in zip(fits, pooled))
            ridges = sorted(f["regularization"] for f in fits)
            scalings = sorted({f["standardize"] for f in fits})
            seconds = statistics.median(f["seconds"] for f in fits)
            chosen = f"{ridges[0]:.3g} to {ridges[-1]:.3g}"
            better.append([name, rank, f"{wins} of {len(fits)}", ", ".join(scalings), chosen, f"{seconds:.1f} s"])
    new = []
    for name in SETS:
        found = [lab.new_tasks(name, s, 3) for s in seeds]
        for count in FEW:
            parts = [str(count), *(f"{count} {c}" for c in ("ridge", "pooled", "alternating", "mean"))]
            new.append([name, count, *(shown([f[p] for f in found]) for p in parts)])
    ranks = [f"r = {rank}" for rank in RANKS]
    return f"""# Many tasks in one subspace

NMSE: the mean squared error of a task as a share of the variance of all its targets, averaged
over tasks. School has 139 schools with 15,362 pupils and 28 features, Parkinsons 42 patients
with 5,875 recordings and 19 features (`total_UPDRS`, without `motor_UPDRS`). In each task a
fifth of the rows is the test part; means over {len(seeds)} splits. Made by

```
python3 scripts/multitask.py
```

## By rank

`rankfold train multitask train.csv -o m.safetensors --rank R --task-column … --target-column …` as it is,
with `--no-common`, and plain: `{PLAIN}`, which is
the problem of Mishra, Kasai, Jawanpuria and Saroop (2019) with their λ.

{table(["data", "recipe", *ranks], recipes)}

## Baselines

`rankfold eval m.safetensors test.csv --train train.csv`: the mean of each task, one ridge
regression for all tasks together (with a bias and a scale for each task where the model has
them), one for each task, and the alternating minimization of Argyriou, Evgeniou and Pontil
(2008). Each sees the rows on the scale of the recipe and chooses its ridge on a fifth of the
training rows, as the model does.

{table(["data", "scale of", *BASELINES], baselines)}

How often the default beats the pooled ridge on its own scale, and what validation chose:

{table(["data", "rank", "better than pooled", "scaling", "λ", "time to train, median"], better)}

On School nearly all of the gain over the plain problem comes from the scale and the bias of
each school and from the common part; the subspace adds little, but it does so almost always. On
Parkinsons a pooled ridge is of no use, and the subspace is as good as a regression for each
patient and a little worse than alternating minimization. That is due to its spectral penalty on
all weights, not to its 19 directions: a subspace of rank 19 is a ridge regression for each
patient. The subspace pays where rows are few, see below.

## New tasks from a few rows

A fifth of the tasks is held out whole, rank 3 is learned from the others, and `rankfold update`
fits the new tasks from their first rows; what comes after the twentieth is predicted. The
baselines learn from the same few rows (`eval --train few.csv`).

{table(["data", "rows a task", "in the subspace", "own ridge", "pooled", "alternating", "mean"], new)}
"""


if __name__ == "__main__":
    main()
