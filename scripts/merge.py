#!/usr/bin/env python3
"""Two models of halves of some data, merged, against one model of all.

    python3 scripts/merge.py --data DATA [--binary RANKFOLD] [--rounds N] [--kind KIND]

Each half is learned alone, the two are merged, and all are measured on the same held-out rows.
Prints a table of means over the rounds, each with another seed, and of their standard errors. KIND:

ratings     A tenth of MovieLens 1M is held out; halves by user, and at random. RMSE.
choices     The same, with ratings as choices: NDCG at 10 of lists for all users.
tasks       A fifth of the rows of each school of School is held out; halves by school, and at
            random. NMSE.
similarity  USPS as it is split; halves by class, and at random. mAP, and how far the orders of
            triplets are from how sure the model is of them. The model of all makes as many steps
            as both halves.
"""

import argparse
import csv
import gzip
import json
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

LEARNERS = {
    "ratings": {
        "bayes": ["--learner", "bayes", "--rank", "20"],
        "als": ["--learner", "als", "--rank", "10", "--regularization", "2"],
    },
    "choices": {
        "items": ["--learner", "items", "--rank", "32", "--regularization", "500"],
        "als": ["--learner", "als", "--rank", "32", "--regularization", "0.3"],
    },
    "tasks": {
        "grassmann, rank 3": ["--rank", "3"],
        "mixed": ["--learner", "mixed"],
    },
    "similarity": {
        "loreta-psd, rank 20": ["--learner", "loreta-psd", "--rank", "20", "--score", "dot"],
        "aroma-factored": ["--learner", "aroma-factored"],
        "aroma-diagonal": ["--learner", "aroma-diagonal"],
    },
}
TASKS = {"ratings": "completion", "choices": "recommend", "tasks": "multitask"}
METRICS = {
    "ratings": ["rmse"],
    "choices": ["ndcg_at_10"],
    "tasks": ["nmse"],
    "similarity": ["map", "calibration_error"],
}
#: The columns that name the group of a row, by which halves are cut.
GROUPS = {"ratings": "user", "choices": "user", "tasks": "task", "similarity": "label"}


def table(data, kind):
    """The header, and rows with whether they are held out: yes, no, or by chance."""
    file = {"tasks": "school/school.csv.gz", "similarity": "usps/usps.csv.gz"}.get(kind, "movielens/ml-1m.csv.gz")
    with gzip.open(data / file, "rt") as lines:
        header, *rows = csv.reader(lines)
    if kind == "similarity":
        return header[1:], [row[1:] for row in rows], [row[0] == "test" for row in rows]
    if kind == "tasks":
        return ["task", "target", *header[2:]], rows, None
    return header[:3], [row[:3] for row in rows], None


def held_out(kind, groups, rng):
    if kind != "tasks":
        return [rng.random() < 0.1 for _ in groups]
    places = {}
    for i, group in enumerate(groups):
        places.setdefault(group, []).append(i)
    chosen = {i for own in places.values() for i in rng.sample(own, len(own) // 5)}
    return [i in chosen for i in range(len(groups))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", default="rankfold")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kind", choices=LEARNERS, default="ratings")
    options = parser.parse_args()
    kind = options.kind
    task, metrics = TASKS.get(kind, kind), METRICS[kind]

    def run(*arguments):
        command = [options.binary, *map(str, arguments), "--json", "-q"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    header, rows, given = table(options.data, kind)
    group = header.index(GROUPS[kind])
    found = {}
    for seed in range(options.rounds):
        rng = random.Random(seed)
        held = given or held_out(kind, [row[group] for row in rows], rng)
        train = [row for row, h in zip(rows, held) if not h]
        names = sorted({row[group] for row in train})
        rng.shuffle(names)
        first = set(names[: len(names) // 2])
        cuts = {
            f"by {GROUPS[kind]}": [row[group] in first for row in train],
            "at random": [rng.random() < 0.5 for _ in train],
        }
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)

            def write(name, some):
                with (place / name).open("w", newline="") as file:
                    csv.writer(file).writerows([header, *some])

            def trained(name, learner, steps=1):
                if kind == "similarity":
                    learner = [*learner, "--steps", 20000 * steps, "--seed", seed]
                run("train", task, place / f"{name}.csv", "-o", place / name, *learner)

            def reached(model):
                # Lists are made of what users chose, also of those that a half does not know.
                chosen = ["--train", place / "all.csv"] if kind == "choices" else []
                told = run("eval", place / model, place / "test.csv", *chosen)
                told["metrics"]["calibration_error"] = told.get("calibration", {}).get("error")
                return [told["metrics"][metric] for metric in metrics]

            write("test.csv", [row for row, h in zip(rows, held) if h])
            write("all.csv", train)
            for name, learner in LEARNERS[kind].items():
                trained("all", learner, 2)
                row = {"all": reached("all")}
                for cut, mine in cuts.items():
                    write("a.csv", [row for row, m in zip(train, mine) if m])
                    write("b.csv", [row for row, m in zip(train, mine) if not m])
                    for half in "ab":
                        trained(half, learner)
                        row[f"{cut}: {half} alone"] = reached(half)
                    run("merge", place / "a", place / "b", "-o", place / "m")
                    row[f"{cut}: merged"] = reached("m")
                for key, value in row.items():
                    found.setdefault((name, key), []).append(value)
    print(f"| learner | model | {' | '.join(metrics)} |\n|---|---|{'---|' * len(metrics)}")
    for (name, key), values in found.items():
        # Not every learner knows how sure it is.
        columns = [c for c in zip(*values) if None not in c]
        error = [statistics.stdev(c) / len(c) ** 0.5 if len(c) > 1 else 0.0 for c in columns]
        cells = [f"{statistics.mean(c):.4f} ± {e:.4f}" for c, e in zip(columns, error)]
        cells += ["–"] * (len(metrics) - len(cells))
        print(f"| {name} | {key} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
