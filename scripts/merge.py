#!/usr/bin/env python3
"""Two models of halves of the ratings, merged, against one model of all.

    python3 scripts/merge.py --data DATA [--binary RANKFOLD] [--rounds N] [--choices]

A tenth of the ratings of MovieLens 1M is held out. The rest is cut into two halves: by user, and
at random. Each half is learned alone, the two are merged, and all are measured on the same
held-out ratings. Prints a table of the mean RMSE over the rounds, each with another seed. With
--choices ratings are choices, and the table has the NDCG at 10 of lists for all users.
"""

import argparse
import csv
import gzip
import json
import random
import subprocess
import tempfile
from pathlib import Path

LEARNERS = {
    "bayes": ["--learner", "bayes", "--rank", "20"],
    "als": ["--learner", "als", "--rank", "10", "--regularization", "2"],
}


CHOOSERS = {
    "items": ["--learner", "items", "--rank", "32", "--regularization", "500"],
    "als": ["--learner", "als", "--rank", "32", "--regularization", "0.3"],
}


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("user", "item", "rating"), *rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", default="rankfold")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--choices", action="store_true")
    options = parser.parse_args()
    task, learners, metric = "completion", LEARNERS, "rmse"
    if options.choices:
        task, learners, metric = "recommend", CHOOSERS, "ndcg_at_10"

    def run(*arguments):
        command = [options.binary, *map(str, arguments), "--json", "-q"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    with gzip.open(options.data / "movielens" / "ml-1m.csv.gz", "rt") as file:
        ratings = [tuple(row)[:3] for row in list(csv.reader(file))[1:]]
    found = {}
    for seed in range(options.rounds):
        rng = random.Random(seed)
        held = [rng.random() < 0.1 for _ in ratings]
        train = [r for r, h in zip(ratings, held) if not h]
        users = sorted({r[0] for r in train})
        rng.shuffle(users)
        first = set(users[: len(users) // 2])
        coin = [rng.random() < 0.5 for _ in train]
        cuts = {
            "by user": [r[0] in first for r in train],
            "at random": coin,
        }
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            write(place / "test.csv", [r for r, h in zip(ratings, held) if h])
            write(place / "all.csv", train)

            def reached(model):
                # Lists are made of what users chose, also of those that a half does not know.
                chosen = ["--train", place / "all.csv"] if options.choices else []
                return run("eval", place / model, place / "test.csv", *chosen)["metrics"][metric]

            for name, learner in learners.items():
                run("train", task, place / "all.csv", "-o", place / "all", *learner)
                row = {"all": reached("all")}
                for cut, mine in cuts.items():
                    write(place / "a.csv", [r for r, m in zip(train, mine) if m])
                    write(place / "b.csv", [r for r, m in zip(train, mine) if not m])
                    for half in "ab":
                        run("train", task, place / f"{half}.csv", "-o", place / half, *learner)
                        row[f"{cut}: {half} alone"] = reached(half)
                    run("merge", place / "a", place / "b", "-o", place / "m")
                    row[f"{cut}: merged"] = reached("m")
                for key, value in row.items():
                    found.setdefault((name, key), []).append(value)
    print(f"| learner | model | {metric} |\n|---|---|---|")
    for (name, key), values in found.items():
        print(f"| {name} | {key} | {sum(values) / len(values):.4f} |")


if __name__ == "__main__":
    main()
