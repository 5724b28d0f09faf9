#!/usr/bin/env python3
"""Seconds and bytes of a sweep by shards on Ray, and what they are made of.

    target/python-ray/bin/python scripts/cluster.py [--keep cluster.json] [--quick]
    target/python-ray/bin/python scripts/cluster.py --quality DATA [--rounds N]

Makes ratings of a planted matrix of rank 20, the same on every machine: 7,000 users and 10,000
items for each million, with repeats. Runs sweeps of ALS of rank 20 with two actors and 2 to 16 shards, and in
one process with two threads; of six sweeps the fastest counts, because others use the machine too. Fits the cost model of docs/cluster.md to some of the points, and
prints how far it is from the others.

With --quality: the RMSE on a tenth of the ratings of MovieLens 1M that is held out, by 8 shards and by
`rankfold.Completion`, the mean of N splits, 3 by default. The model does not depend on actors, so there are none.
"""

import argparse
import csv
import gzip
import json
import os
import secrets
import time

import numpy as np

ITEMS, RANK, SWEEPS = 10_000, 20, 6
#: Ratings in millions, shards; the first of each list is fitted, the others are predicted.
FITTED = [(1, 2), (1, 16), (10, 4)]
PREDICTED = [(1, 4), (1, 8), (10, 2), (10, 8), (10, 16)]


def planted(millions):
    """Users, items and ratings."""
    rng = np.random.default_rng(20)
    users, count = 7_000 * millions, 1_000_000 * millions
    weights = rng.lognormal(0, 1, users)
    of_users = np.sort(rng.choice(users, count, p=weights / weights.sum()))
    popularity = 1 / (10 + np.arange(ITEMS)) ** 0.8
    of_items = rng.choice(ITEMS, count, p=popularity / popularity.sum())
    size = (0.6 / np.sqrt(RANK)) ** 0.5
    left, right = rng.normal(0, size, (users, RANK)), rng.normal(0, size, (ITEMS, RANK))
    ratings = np.empty(count)
    for at in range(0, count, 1_000_000):
        part = slice(at, at + 1_000_000)
        u, i = of_users[part], of_items[part]
        ratings[part] = 3.5 + np.einsum("ij,ij->i", left[u], right[i])
    return of_users, of_items, ratings + rng.normal(0, 0.8, count)


def terms(millions, shards):
    """What the seconds of a sweep are linear in: ratings, numbers that are added, and what is fixed."""
    size = RANK + 1
    answer = ITEMS * (size * (size + 1) / 2 + size + 1)
    return [millions, shards * answer * 1e-6, 1.0]


def quality(data, rounds):
    """Prints the RMSE of each learner by shards, and of the same learner in one process."""
    import rankfold as rf
    import rankfold.ray

    with gzip.open(os.path.join(data, "movielens", "ml-1m.csv.gz"), "rt") as file:
        rows = np.array([[float(v) for v in row[:3]] for row in list(csv.reader(file))[1:]])
    learners = {
        "bayes": dict(learner="bayes"),
        "bayes, no_implicit": dict(learner="bayes", no_implicit=True),
        "als": dict(learner="als", rank=10, regularization=2.0),
    }
    for name, given in learners.items():
        found = {"shards": [], "one": []}
        for seed in range(rounds):
            held = np.random.default_rng(seed).random(len(rows)) < 0.1
            train, test = rows[~held].T, rows[held].T
            began = time.process_time()
            model = rankfold.ray.Completion(shards=8, actors=0, n_jobs=2, random_state=seed, **given).fit(*train)
            middle = time.process_time()
            found["shards"].append(-model.score(*test))
            rank, sweeps = model.model_.info()["rank"], len(model.history_)
            between = time.process_time()
            model = rf.Completion(n_jobs=2, random_state=seed, **given).fit(*train)
            seconds = [middle - began, time.process_time() - between]
            found["one"].append(-model.score(*test))
            print(name, seed, {k: round(v[-1], 5) for k, v in found.items()}, f"rank {rank}, {sweeps} sweeps, CPU {seconds}", flush=True)
        print(f"{name}: {np.mean(found['shards']):.4f} by shards, {np.mean(found['one']):.4f} in one process", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", help="a file for what was measured")
    parser.add_argument("--quick", action="store_true", help="one million ratings only")
    parser.add_argument("--quality", metavar="DATA", help="the RMSE on MovieLens 1M instead")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.quality:
        return quality(options.quality, options.rounds)
    # A token of this run alone, as Ray wants one.
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    import ray

    import rankfold as rf
    import rankfold.ray

    ray.init(num_cpus=2, object_store_memory=2 * 2**30, include_dashboard=False, log_to_driver=False)
    asked = [p for p in FITTED + PREDICTED if p[0] == 1 or not options.quick]
    found, data = [], {}
    for millions, shards in sorted(asked):
        if millions not in data:
            data = {millions: planted(millions)}
            given = dict(learner="als", rank=RANK, regularization=2.0, tolerance=0.0, random_state=1)
            for name, kind in [
                ("one process, 2 threads, 2 shards", dict(shards=2, actors=0, n_jobs=2)),
            ]:
                model = rankfold.ray.Completion(iterations=SWEEPS, **given, **kind).fit(*data[millions])
                seconds = min(model.report_["seconds"])
                found.append(dict(millions=millions, who=name, seconds=seconds))
                print(json.dumps(found[-1]), flush=True)
            began = time.perf_counter()
            rf.Completion(iterations=SWEEPS, n_jobs=2, init="random", **given).fit(*data[millions])
            whole = time.perf_counter() - began
            found.append(dict(millions=millions, who="rankfold.Completion, 2 threads, whole fit", seconds=whole))
            print(json.dumps(found[-1]), flush=True)
        began = time.perf_counter()
        model = rankfold.ray.Completion(
            shards=shards, actors=2, n_jobs=1, num_cpus=1, iterations=SWEEPS, **given
        ).fit(*data[millions])
        whole = time.perf_counter() - began
        report = model.report_
        point = dict(
            millions=millions,
            shards=shards,
            seconds=min(report["seconds"]),
            middle=sorted(report["seconds"])[SWEEPS // 2],
            whole=whole,
            sent=report["bytes_sent"] / SWEEPS,
            received=report["bytes_received"] / SWEEPS,
            load=os.getloadavg()[0],
        )
        found.append(point)
        print(json.dumps(point), flush=True)
    points = {(p["millions"], p["shards"]): p["seconds"] for p in found if "shards" in p}
    known = [p for p in FITTED if p in points]
    matrix = np.array([terms(*p) for p in known])
    factors, *_ = np.linalg.lstsq(matrix, np.array([points[p] for p in known]), rcond=None)
    print("seconds of a million ratings, of a million numbers added, and fixed:", factors)
    for p in points:
        said = float(np.dot(terms(*p), factors))
        print(p, f"measured {points[p]:.2f}, model {said:.2f}", "fitted" if p in known else "predicted")
    if options.keep:
        with open(options.keep, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
