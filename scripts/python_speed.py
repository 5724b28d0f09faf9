"""Measures the Python package beside the command line: fit, partial_fit, neighbors, memory.

    target/python/bin/python scripts/python_speed.py DIRECTORY

DIRECTORY holds `news.svm` (20 Newsgroups), `ratings.csv` (MovieLens 1M) and `isolet.svm`. What is not there is left out.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

import rankfold as rf


def command(*args: object) -> dict:
    """What the command prints as JSON."""
    run = [sys.executable, "-m", "rankfold", *map(str, args), "--json", "--quiet"]
    return json.loads(subprocess.run(run, check=True, capture_output=True).stdout)


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    data, out = Path(sys.argv[1]), Path(tempfile.mkdtemp())
    if (news := data / "news.svm").exists():
        found = command("train", "similarity", news, "-o", out / "m", "--steps", 200_000)
        X, y = load_svmlight_file(str(news), dtype=np.float32, zero_based=False)
        model = rf.Similarity(steps=200_000)
        took = timed(lambda: model.fit(X, y))
        print(f"similarity, 200,000 triplets: fit {took:.2f} s, command {found['seconds']:.2f} s with reading")
        triplets = np.random.default_rng(0).integers(0, X.shape[0], size=(200_000, 3))
        lines = out / "t.jsonl"
        keys = ("query", "positive", "negative")
        lines.write_text("".join(json.dumps(dict(zip(keys, map(int, t)))) + "\n" for t in triplets))
        found = command("update", out / "m", lines, "--rows", news, "-o", out / "u")
        rate = len(triplets) / found["seconds"]
        parts = np.array_split(triplets, 200)
        took = timed(lambda: [model.partial_fit(X, triplets=part) for part in parts])
        print(f"partial_fit of 1,000: {200_000 / took:,.0f} a second, update {rate:,.0f} with reading")
        learner = model.online(X)
        singles = triplets[:100_000].tolist()
        took = timed(lambda: [learner.learn(*t) for t in singles])
        print(f"one at a time: {100_000 / took:,.0f} a second")
    if (ratings := data / "ratings.csv").exists():
        found = command("train", "completion", ratings, "-o", out / "c", "--learner", "als")
        users, items, values = np.loadtxt(ratings, delimiter=",", skiprows=1, usecols=(0, 1, 2)).T
        took = timed(lambda: rf.Completion(learner="als").fit(users.astype(int), items.astype(int), values))
        print(f"completion: fit {took:.2f} s, command {found['seconds']:.2f} s with reading")
    if (isolet := data / "isolet.svm").exists():
        found = command("train", "metric", isolet, "-o", out / "i")
        X, y = load_svmlight_file(str(isolet), zero_based=False)
        took = timed(lambda: rf.Metric().fit(X, y))
        print(f"metric: fit {took:.2f} s, command {found['seconds']:.2f} s with reading")
    size = 100_000
    X = np.random.default_rng(0).normal(size=(size, 50)).astype(np.float32)
    y = np.arange(size) % 10
    model = rf.Similarity(rank=30, steps=20_000, step_size=0.1).fit(X, y)
    took = timed(lambda: model.kneighbors(X[:1000], 10))
    print(f"1,000 queries in 100,000 rows: {took:.2f} s")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    matrix = sp.csr_matrix(
        (np.ones(10**8, np.float32), np.tile(np.arange(100, dtype=np.int32), 10**6), np.arange(0, 10**8 + 1, 100, dtype=np.int32)),
        shape=(10**6, 1000),
    )
    size = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    rf.Similarity(rank=2, steps=1000, step_size=0.1).fit(matrix, np.arange(10**6) % 10)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    share = 1024 * (after - before) / size
    print(f"fit of 100 million non-zeros: peak {share:.2f} times the array (alone, without a DIRECTORY of data)")


if __name__ == "__main__":
    main()
