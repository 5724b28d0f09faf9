#!/usr/bin/env python3
"""Ten million ratings: memory at the peak, and processor time against one million.

    python3 scripts/ten_million.py --keep DIR

Makes two files of ratings, the same on every machine: 70,000 users, or 7,000, with
10,000 items, a planted matrix of rank 20, biases and noise; activity of users and
popularity of items have long tails. Then learns rank 20 from each, in turn and
--rounds times, and prints a table. --keep DIR holds the files for the next time.
"""

import argparse
import json
import math
import os
import random
import subprocess
import tempfile
from itertools import accumulate
from operator import mul
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ITEMS, RANK, MOST = 10_000, 20, 3_000
SIZES = {"one million": (7_000, 1_000_000), "ten million": (70_000, 10_000_000)}
PENALTY, ITERATIONS = 2, 10
LEARNERS = {
    "als": f"--learner als --regularization {PENALTY} --iterations {ITERATIONS} --tolerance 0",
    "bayes": f"--learner bayes --iterations {ITERATIONS} --tolerance 0",
    "bayes --no-implicit": f"--learner bayes --no-implicit --iterations {ITERATIONS} --tolerance 0",
}
BAR_BYTES, BAR_TIME = 40, 11
# An id of some letters as a string of its own, and its place in a table.
ID_BYTES = 64


def counts(rng, users, ratings):
    """How many ratings each user gives: a long tail that sums to all ratings."""
    weights = [rng.lognormvariate(0, 1) for _ in range(users)]
    scale = ratings / sum(weights)
    found = [min(MOST, max(5, int(w * scale))) for w in weights]
    missing = ratings - sum(found)
    while missing:
        user = rng.randrange(users)
        change = 1 if missing > 0 else -1
        if 5 <= found[user] + change <= MOST:
            found[user] += change
            missing -= change
    return found


def make(file, users, ratings):
    rng = random.Random(20)
    size = (0.6 / math.sqrt(RANK)) ** 0.5
    factors = [[rng.gauss(0, size) for _ in range(RANK)] for _ in range(ITEMS)]
    biases = [rng.gauss(0, 0.4) for _ in range(ITEMS)]
    popularity = list(accumulate(1 / (10 + i) ** 0.8 for i in range(ITEMS)))
    items = range(ITEMS)
    with file.open("w") as out:
        out.write("user,item,rating\n")
        for user, count in enumerate(counts(rng, users, ratings)):
            own = [rng.gauss(0, size) for _ in range(RANK)]
            level = 3.5 + rng.gauss(0, 0.4)
            rated = {}
            while len(rated) < count:
                rated.update(dict.fromkeys(rng.choices(items, cum_weights=popularity, k=count)))
            lines = []
            for item in list(rated)[:count]:
                value = level + biases[item] + sum(map(mul, own, factors[item])) + rng.gauss(0, 0.8)
                lines.append(f"{user},{item},{min(10, max(1, round(2 * value))) / 2:g}\n")
            out.write("".join(lines))


def train(binary, file, model, options):
    """The report of the program, with its memory at the peak."""
    command = [str(binary), "train", "completion", str(file), "-o", str(model), "--rank", str(RANK),
               "--json", *options.split()]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(" ".join(command))
    found = json.loads(text)
    return {**found, "bytes": used.ru_maxrss * 1024, "cpu": used.ru_utime + used.ru_stime}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=lambda path: Path(path).resolve(),
                        default=ROOT / "target/release/rankfold")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        best = {}
        for name, (users, ratings) in SIZES.items():
            file = folder / f"{ratings}.csv"
            if not file.exists():
                part = folder / "part.csv"
                make(part, users, ratings)
                part.rename(file)
        for _ in range(arguments.rounds):
            for learner in arguments.learners:
                for name, (users, ratings) in SIZES.items():
                    found = train(arguments.binary, folder / f"{ratings}.csv",
                                  Path(temporary) / "model.safetensors", LEARNERS[learner])
                    key = learner, name
                    if key not in best or found["cpu"] < best[key]["cpu"]:
                        best[key] = found
                    print(f"{learner}, {name}: {found['cpu']:.2f} CPU-s, {found['bytes'] / 1e6:.0f} MB, "
                          f"load {os.getloadavg()[0]:.1f}", flush=True)
    rows = []
    for learner in arguments.learners:
        for name, (users, ratings) in SIZES.items():
            found = best[learner, name]
            people = found["users"] + found["items"]
            factors, ids = people * RANK * 8, people * ID_BYTES
            times = found["cpu"] / best[learner, "one million"]["cpu"]
            rows.append([f"`{learner}`", f"{ratings:,}", f"{found['bytes'] / 1e6:.0f}", f"{factors / 1e6:.1f}",
                         f"{ids / 1e6:.1f}", f"{(found['bytes'] - factors - ids) / ratings:.1f}",
                         found["steps"], f"{found['cpu']:.2f}",
                         f"{times:.1f}"])
    print()
    print(table(["learner", "ratings", "peak MB", "factors MB", "ids MB", "bytes a rating", "iterations",
                 "CPU s", "of one million"], rows))
    print(f"Bars: {BAR_BYTES} bytes a rating beside factors and ids, {BAR_TIME} times the CPU-seconds.")


if __name__ == "__main__":
    main()
