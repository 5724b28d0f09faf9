#!/usr/bin/env python3
"""Seconds and bytes of a sweep by shards on Ray, and what they are made of.

    target/python-ray/bin/python scripts/cluster.py [--keep cluster.json] [--quick] [--points 1:2,50:8]
    target/python-ray/bin/python scripts/cluster.py --quality DATA [--rounds N]
    target/python-ray/bin/python scripts/cluster.py --metric
    target/python-ray/bin/python scripts/cluster.py --gossip

Makes ratings of a planted matrix of rank 20, the same on every machine: 7,000 users and 10,000
items for each million, with repeats. Runs sweeps of ALS of rank 20 with two actors and 2 to 16 shards, and in
one process with two threads; of six sweeps the fastest counts, because others use the machine too. Fits the cost model of docs/cluster.md to some of the points, and
prints how far it is from the others.

With --points: other millions of ratings and shards, beside those that are fitted; without one process. 50 million
need about 12 GB.

With --metric: seconds and bytes of an iteration of a metric of rank 20 on a million pairs of 20,000 rows of
200 features. With --gossip: those of a slot of eight agents on a ring with a million ratings, rank 5.

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


def alone(data, point, given):
    """The same sweeps in one process."""
    import rankfold as rf
    import rankfold.ray

    one = rankfold.ray.Completion(shards=2, actors=0, n_jobs=2, iterations=SWEEPS, **given).fit(*data)
    began = time.perf_counter()
    rf.Completion(iterations=SWEEPS, n_jobs=2, init="random", **given).fit(*data)
    whole = time.perf_counter() - began
    found = [
        dict(who="one process, 2 threads, 2 shards", seconds=min(one.report_["seconds"])),
        dict(who="rankfold.Completion, 2 threads, whole fit", seconds=whole),
    ]
    for more in found:
        print(json.dumps(point | more), flush=True)
    return [point | more for more in found]


def metric():
    """Prints seconds and bytes of an iteration in one process and by shards."""
    import rankfold as rf
    import rankfold.ray

    rng = np.random.default_rng(3)
    y = rng.integers(0, 20, 20_000)
    X = rng.normal(size=(20_000, 200)) + rng.normal(size=(20, 200))[y]
    given = dict(rank=20, pairs_from="random", constraints=1_000_000, iterations=10, tolerance=0.0, random_state=1)
    for learner in ("flat", "polar"):
        began = time.perf_counter()
        rf.Metric(learner=learner, n_jobs=2, **given).fit(X, y)
        whole = time.perf_counter() - began
        print(json.dumps(dict(learner=learner, who="rankfold.Metric, 2 threads, whole fit", whole=whole)), flush=True)
        for kind in (dict(actors=0, n_jobs=2), dict(actors=2, n_jobs=1)):
            times = []
            model = rankfold.ray.Metric(
                learner=learner, shards=8, callback=lambda _: times.append(time.perf_counter()), **kind, **given
            )
            began = time.perf_counter()
            model.fit(X, y)
            whole = time.perf_counter() - began
            report, steps = model.report_, len(times)
            print(
                json.dumps(
                    dict(
                        learner=learner,
                        actors=report["actors"],
                        seconds=(times[-1] - times[0]) / (steps - 1),
                        whole=whole,
                        sent=report["bytes_sent"] / steps,
                        received=report["bytes_received"] / steps,
                        load=os.getloadavg()[0],
                    )
                ),
                flush=True,
            )


def gossip():
    """Prints seconds and bytes of a slot in one process and by actors."""
    import rankfold as rf
    import rankfold.ray

    data = planted(1)
    given = dict(agents=8, graph="ring", rank=5, slots=50, curve_every=50, regularization=0.01, random_state=1)
    for kind, more in ((rf.Gossip, dict(n_jobs=2)), (rankfold.ray.Gossip, dict(n_jobs=2, num_cpus=0.25))):
        times = []
        model = kind("completion", callback=lambda event: times.append((event["event"], time.perf_counter())), **more, **given)
        began = time.perf_counter()
        model.fit(*data)
        whole = time.perf_counter() - began
        measured = [at for event, at in times if event == "measured"]
        report = model.report_
        print(
            json.dumps(
                dict(
                    actors=report.get("actors", 0),
                    seconds=(measured[-1] - measured[0]) / given["slots"],
                    whole=whole,
                    sent=report.get("bytes_sent", 0),
                    received=report.get("bytes_received", 0),
                    messages=report["more"]["bytes"],
                    load=os.getloadavg()[0],
                )
            ),
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", help="a file for what was measured")
    parser.add_argument("--quick", action="store_true", help="one million ratings only")
    parser.add_argument("--points", help="millions:shards,… instead of those that are predicted")
    parser.add_argument("--metric", action="store_true", help="an iteration of a metric instead")
    parser.add_argument("--gossip", action="store_true", help="a slot of agents instead")
    parser.add_argument("--quality", metavar="DATA", help="the RMSE on MovieLens 1M instead")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.quality:
        return quality(options.quality, options.rounds)
    # A token of this run alone, as Ray wants one.
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    import ray

    import rankfold.ray

    points = [tuple(map(int, p.split(":"))) for p in options.points.split(",")] if options.points else None
    store = (4 if points and max(points)[0] > 10 else 2) * 2**30
    ray.init(num_cpus=2, object_store_memory=store, include_dashboard=False, log_to_driver=False)
    if options.metric or options.gossip:
        return metric() if options.metric else gossip()
    asked = [p for p in FITTED + PREDICTED if p[0] == 1 or not options.quick]
    found, data = [], {}
    given = dict(learner="als", rank=RANK, regularization=2.0, tolerance=0.0, random_state=1)
    for millions, shards in sorted(set(FITTED + points) if points else asked):
        if millions not in data:
            # Those before are let go first.
            data.clear()
            data[millions] = planted(millions)
            if not points:
                found += alone(data[millions], dict(millions=millions), given)
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
