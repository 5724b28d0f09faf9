#!/usr/bin/env python3
"""Test RMSE on MovieLens, the tables of docs/results/ratings.md.

    python3 scripts/ratings.py --keep DIR

Reads movielens/ml-1m.csv.gz and ml-100k.csv.gz from $RANKFOLD_DATA, or --data. Each
seed is a split of its own: a tenth of all ratings for test, or a fifth of each user.
Whatever a method has to choose it chooses on a part of the training ratings. The
figures of a seed come before those of the next, and --keep DIR stores each, by
binary, so that an interrupted run goes on; --show prints what is there and runs
nothing. Slow methods have fewer seeds, unless --seeds says how many.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RANKS = [2, 3, 5, 7, 10, 12]
SEEDS = 5
FILES = {"1m": "movielens/ml-1m.csv.gz", "100k": "movielens/ml-100k.csv.gz"}
TITLES = {"1m": "MovieLens 1M", "100k": "MovieLens 100K"}
BY_USER = [("1m", 10), ("100k", 5)]

# name: options, and seeds where they are fewer.
METHODS = {
    "bayes": ("--learner bayes",),
    "bayes --no-implicit": ("--learner bayes --no-implicit",),
    "als": ("--learner als",),
    "bayes --no-bias": ("--learner bayes --no-bias",),
    "als --no-bias": ("--learner als --no-bias",),
    "polar --no-bias": ("--learner polar --no-bias",),
    "balanced --no-bias": ("--learner balanced --no-bias",),
    "gradient --no-bias": ("--learner gradient --no-bias",),
    "embedded --no-bias": ("--learner embedded --no-bias", {"1m": 1}),
    "svp --no-bias": ("--learner svp --no-bias", {"1m": 1}),
    "grassmann --no-bias": ("--learner grassmann --no-bias", {"1m": 1, "100k": 1}),
    "optspace --no-bias": ("--learner optspace --no-bias", {"1m": 1, "100k": 1}),
    "polar online --no-bias": ("--learner polar --solver online --no-bias",),
    "balanced online --no-bias": ("--learner balanced --solver online --no-bias",),
}
# Test RMSE in the paper on MovieLens 1M, ten other splits of the same size.
PAPER = {
    "balanced --no-bias": [.90, .90, .90, .88, .88, .88],
    "polar --no-bias": [.89, .89, .87, .86, .85, .85],
    "gradient --no-bias": [.88, .88, .86, .86, .86, .87],
    "svp --no-bias": [.89, .88, .88, .89, .90, .92],
    "optspace --no-bias": [.90, .90, .90, .89, .89, .89],
}
ADMIRA = [1.11, 1.09, 1.07, 1.04, 1.04, 1.03]


class Lab:
    """Makes runs, each once."""

    def __init__(self, binary, data, keep, folder, limit, show):
        self.binary, self.data, self.folder, self.limit, self.show = binary, data, folder, limit, show
        code = hashlib.sha256(binary.read_bytes()).hexdigest()[:16]
        self.keep = keep / f"ratings-{code}.json" if keep else None
        self.kept = json.loads(self.keep.read_text()) if keep and self.keep.exists() else {}
        told = subprocess.run([str(binary), "train", "completion", "--help"],
                              capture_output=True, text=True, check=True).stdout
        self.online = "- online" in told

    def command(self, *arguments):
        command = [str(self.binary), *map(str, arguments), "--json"]
        out = subprocess.run(command, capture_output=True, text=True, timeout=self.limit)
        if out.returncode:
            raise SystemExit(f"{' '.join(command)}\n{out.stderr}")
        return json.loads(out.stdout)

    def split(self, data, seed, by_user):
        prefix = self.folder / f"{data}-{seed}{'-user' if by_user else ''}"
        parts = [prefix.with_name(f"{prefix.name}.{part}.csv.gz") for part in ("train", "test")]
        if not parts[1].exists():
            how = ["--test", 0.2, "--by", "user"] if by_user else ["--test", 0.1]
            self.command("split", self.data / FILES[data], "-o", prefix, "--seed", seed, *how)
        return parts

    def run(self, data, method, rank, seed, by_user=False):
        """The test RMSE and that of biases alone, or nothing if it was not run or took too long."""
        key = f"{data} {'u80' if by_user else 'r90'} {seed} {rank} {method}"
        if key not in self.kept and not self.show:
            train, test = self.split(data, seed, by_user)
            model = self.folder / "model.safetensors"
            try:
                found = self.command("train", "completion", train, "-o", model, "--rank", rank,
                                     *METHODS[method][0].split())
                measured = self.command("eval", model, test)
                self.kept[key] = {
                    "rmse": measured["metrics"]["rmse"], "baseline": measured["baseline"]["metrics"]["rmse"],
                    "seconds": found["seconds"], "steps": found["steps"], "stopped": found["stopped"],
                    "regularization": found["regularization"], "trials": len(found["trials"])}
            except subprocess.TimeoutExpired:
                self.kept[key] = None
            print(key, self.kept[key], file=sys.stderr, flush=True)
            if self.keep:
                part = self.keep.with_suffix(".part")
                part.write_text(json.dumps(self.kept))
                part.replace(self.keep)
        return self.kept.get(key)


def short(value):
    return f"{value:.4f}".replace("0.", ".", 1)


def mean(values):
    return sum(values) / len(values)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def seeds_of(method, data, seeds):
    fewer = METHODS[method][1].get(data, SEEDS) if len(METHODS[method]) > 1 else SEEDS
    return seeds or fewer


def cell(runs):
    """The mean, with the number of seeds where it is not all of them."""
    found = [run["rmse"] for run in runs if run]
    if not found:
        return "–"
    return short(mean(found)) + ("" if len(found) == SEEDS else f" ({len(found)})")


def baseline(runs):
    """Biases alone do not depend on method or rank: any run of a seed has them."""
    found = {seed: run["baseline"] for seed, run in runs if run}
    return [{"rmse": value} for value in found.values()]


def ratings_table(lab, data, ranks, methods, seeds):
    runs = {(m, r): [lab.run(data, m, r, s) for s in range(seeds_of(m, data, seeds))]
            for m in methods for r in ranks}
    every = [(s, run) for found in runs.values() for s, run in enumerate(found)]
    bias = cell(baseline(every))
    rows = [["biases alone", *([bias] * len(ranks))]]
    for method in methods:
        paper = data == "1m" and method in PAPER
        if not paper and not any(run for r in ranks for run in runs[method, r]):
            continue
        rows.append([f"`{method}`", *(cell(runs[method, r]) for r in ranks)])
        if paper:
            rows.append(["– in the paper", *(f"{PAPER[method][RANKS.index(r)]:.2f}"[1:]
                                             if r in RANKS else "" for r in ranks)])
    if data == "1m":
        rows.append(["ADMiRA in the paper", *(f"{ADMIRA[RANKS.index(r)]:.2f}" if r in RANKS else ""
                                              for r in ranks)])
    return f"## {TITLES[data]}\n\n" + table(["test RMSE at rank", *map(str, ranks)], rows)


def user_table(lab, methods, seeds):
    runs = {(m, d): [lab.run(d, m, r, s, True) for s in range(seeds_of(m, d, seeds))]
            for m in methods for d, r in BY_USER}
    rows = [["biases alone"]]
    for data, _ in BY_USER:
        every = [(s, run) for m in methods for s, run in enumerate(runs[m, data])]
        rows[0].append(cell(baseline(every)))
    for method in methods:
        if any(run for d, _ in BY_USER for run in runs[method, d]):
            rows.append([f"`{method}`", *(cell(runs[method, d]) for d, _ in BY_USER)])
    head = ["test RMSE", *(f"{TITLES[d]}, rank {r}" for d, r in BY_USER)]
    return "## A fifth of each user for test\n\n" + table(head, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=lambda path: Path(path).resolve(),
                        default=ROOT / "target/release/rankfold")
    parser.add_argument("--data", type=Path,
                        default=Path(os.environ.get("RANKFOLD_DATA", ROOT / "../shared/data")))
    parser.add_argument("--dataset", nargs="+", choices=["1m", "100k", "user"],
                        default=["1m", "100k", "user"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--ranks", nargs="+", type=int, default=RANKS)
    parser.add_argument("--seeds", type=int, help="seeds 0 to SEEDS − 1")
    parser.add_argument("--limit", type=float, help="give up on a run after so many seconds")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--show", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(arguments.binary, arguments.data, arguments.keep, Path(folder), arguments.limit,
                  arguments.show)
        methods = [m for m in arguments.methods if lab.online or "online" not in m]
        # All of one seed before the next.
        for seed in range(arguments.seeds or SEEDS):
            for method in methods:
                for data in arguments.dataset:
                    if data == "user":
                        for d, rank in BY_USER:
                            if seed < seeds_of(method, d, arguments.seeds):
                                lab.run(d, method, rank, seed, True)
                    elif seed < seeds_of(method, data, arguments.seeds):
                        for rank in arguments.ranks:
                            lab.run(data, method, rank, seed)
        for data in arguments.dataset:
            if data == "user":
                print(user_table(lab, methods, arguments.seeds))
            else:
                print(ratings_table(lab, data, arguments.ranks, methods, arguments.seeds))


if __name__ == "__main__":
    main()
