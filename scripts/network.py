#!/usr/bin/env python3
"""Agents as processes on this machine, beside the simulation and batch.

    python3 scripts/network.py movielens|tasks|life|namespaces|speed --binary target/release/rankfold \
        --data DATA --keep network.json

Every part prints its table and adds it to the file. All servers bind to 127.0.0.1.
"""

import argparse
import gzip
import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path


def call(binary, *arguments, check=True):
    done = subprocess.run([binary, "--json", *map(str, arguments)], capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout)


def metric(binary, model, test, name, *more):
    return call(binary, "eval", model, test, *more)["metrics"][name]


def movielens(binary, data, folder):
    """Five processes, the simulation with the values that they agreed on, the simulation by
    itself, and batch: rank 5, a tenth of the ratings held out."""
    source = data / "movielens/ml-1m.csv.gz"
    call(binary, "split", source, "-o", folder / "ml", "--test", 0.1, "--seed", 0)
    train, test = sorted(folder.glob("ml.*"), key=lambda p: ".test" in p.name)
    rows = {}
    start = time.time()
    found = call(binary, "gossip", "run", "completion", train, "--agents", 5, "--rank", 5, "--network",
                 "-o", folder / "net.safetensors")
    rows["five processes"] = {
        "seconds": time.time() - start,
        "rmse": metric(binary, folder / "net.safetensors", test, "rmse"),
        "rmse_of_agents": [],
        **{key: found[key] for key in ["regularization", "rho", "center", "consensus", "bytes", "messages"]},
    }
    start = time.time()
    call(binary, "gossip", "run", "completion", train, "--agents", 5, "--rank", 5, "--regularization",
         found["regularization"], "--center", found["center"], "--rho", found["rho"], "--trust", 0.5,
         "-o", folder / "sim.safetensors")
    rows["simulation, same options"] = {
        "seconds": time.time() - start,
        "rmse": metric(binary, folder / "sim.safetensors", test, "rmse"),
    }
    start = time.time()
    own = call(binary, "gossip", "run", "completion", train, "--agents", 5, "--rank", 5,
               "-o", folder / "own.safetensors")
    rows["simulation that chooses λ jointly"] = {
        "seconds": time.time() - start,
        "rmse": metric(binary, folder / "own.safetensors", test, "rmse"),
        "regularization": own["regularization"],
    }
    call(binary, "train", "completion", train, "--learner", "grassmann", "--rank", 5,
         "-o", folder / "batch.safetensors")
    rows["batch"] = {"rmse": metric(binary, folder / "batch.safetensors", test, "rmse")}
    return rows


def tasks(binary, data, folder):
    """School and Parkinsons by six processes."""
    rows = {}
    for name, source, columns in [
        ("School", data / "school/school.csv.gz", ["--task-column", "task", "--target-column", "y"]),
        ("Parkinsons", data / "parkinsons/parkinsons_updrs.csv.gz",
         ["--task-column", "subject#", "--target-column", "motor_UPDRS", "--ignore-column", "total_UPDRS"]),
    ]:
        by = columns[1]
        call(binary, "split", source, "-o", folder / name, "--test", 0.2, "--seed", 0, "--by", by)
        train, test = sorted(folder.glob(f"{name}.t*"), key=lambda p: ".test" in p.name)
        for kind, more in [("six processes", ["--network"]), ("simulation", [])]:
            model = folder / f"{name}-{kind}.safetensors".replace(" ", "-")
            found = call(binary, "gossip", "run", "multitask", train, "--agents", 6, "--rank", 3, *columns,
                         *more, "-o", model)
            rows[f"{name}, {kind}"] = {
                "nmse": metric(binary, model, test, "nmse", "--train", train),
                **{key: found.get(key) for key in ["regularization", "standardize", "rho", "consensus", "seconds"]},
            }
            if kind == "six processes":
                given = ["--regularization", found["regularization"], "--standardize", found["standardize"],
                         "--rho", found["rho"], "--trust", 0.5]
                model = folder / f"{name}-same.safetensors"
                call(binary, "gossip", "run", "multitask", train, "--agents", 6, "--rank", 3, *columns,
                     *given, "-o", model)
                rows[f"{name}, simulation, same options"] = {
                    "nmse": metric(binary, model, test, "nmse", "--train", train)}
    return rows


def planted(folder, agents, users=60, items=80, seed=1):
    """Ratings of rank three with noise, a file for each agent."""
    source = random.Random(seed)
    item = [[source.gauss(0, 1) for _ in range(3)] for _ in range(items)]
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for a in range(agents):
        path = folder / f"part-{a}.csv"
        with open(path, "w") as out:
            out.write("user,item,rating\n")
            for u in range(users):
                w = [source.gauss(0, 1) for _ in range(3)]
                for j in range(items):
                    if source.random() < 0.4:
                        y = 3 + sum(x * z for x, z in zip(w, item[j])) + source.gauss(0, 0.3)
                        out.write(f"u{a}-{u},i{j},{y:.4f}\n")
        parts.append(path)
    names = folder / "items.txt"
    names.write_text("".join(f"i{j}\n" for j in range(items)))
    return parts, names


LIFE = ["--rank", 3, "--regularization", 0.01, "--center", 3, "--rho", 60]

# What goes wrong, as `gossip run --faults` reads it.
SCRIPTS = {
    "each piece of a connection ends it halfway with probability .1": {"loss": 0.1},
    "one agent killed with -9 ten times": {
        "absent": [{"agent": 2, "from": 0.05 + 0.08 * k, "until": 0.07 + 0.08 * k} for k in range(10)]},
    "a partition for a third of the run": {"cut": [{"between": [1, 2], "from": 0.33, "until": 0.66}]},
    "one agent ten times as slow": {"slow": [{"agent": 0, "times": 10}], "pace": 2},
    "one agent joins late": {"absent": [{"agent": 4, "from": 0, "until": 0.4}]},
    "delays, and a black hole for a tenth of the run": {
        "delay": 4, "cut": [{"between": [3, 4], "from": 0.2, "until": 0.3, "silent": True}]},
    "all of it at once": {
        "loss": 0.05, "delay": 2, "absent": [{"agent": 2, "from": 0.2, "until": 0.3}],
        "cut": [{"between": [0, 1], "from": 0.4, "until": 0.7}], "slow": [{"agent": 3, "times": 5}]},
}


def life(binary, data, folder):
    """Scripts of faults, in the simulation and among processes, against the quiet simulation."""
    parts, _ = planted(folder / "data", 5)
    run = ["gossip", "run", "completion", *parts, "--slots", 800, "--trust", 0.5, *LIFE, "-o",
           folder / "m.safetensors"]
    base = call(binary, *run)["cost"]
    rows = {"quiet": {"cost": base}}
    for name, script in SCRIPTS.items():
        path = folder / "faults.json"
        path.write_text(json.dumps(script))
        row = {}
        for kind, more in [("simulation", []), ("network", ["--network"])]:
            found = call(binary, *run, "--faults", path, *more)
            row[kind] = found["cost"] / base - 1
            row[f"{kind} seconds"] = found["seconds"]
        rows[name] = row
        print(name, row, flush=True)
    return rows


def namespaces(binary, data, folder):
    """Three agents, each in a network namespace of its own behind a bridge in a fourth. The link of
    one is down for a while. Needs the rights of root."""
    parts, items = planted(folder / "data", 3)
    names = ["site-0", "site-1", "site-2"]
    call(binary, "gossip", "keys", folder / "keys", *[w for name in names for w in ("--name", name)])
    keys, rounds = folder / "keys", 300
    ip = lambda *words: subprocess.run(["ip", *map(str, words)], check=True)
    spaces = [f"rankfold-{os.getpid()}-{i}" for i in range(4)]
    hub = spaces[3]
    quiet = call(binary, "gossip", "run", "completion", *parts, "--slots", 600, "--trust", 0.5, *LIFE,
                 "-o", folder / "m.safetensors")["cost"]
    try:
        for space in spaces:
            ip("netns", "add", space)
        ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", hub, "link", "set", "bridge", "up")
        for i in range(3):
            ip("-n", hub, "link", "add", f"port{i}", "type", "veth", "peer", "name", "wire", "netns", spaces[i])
            ip("-n", hub, "link", "set", f"port{i}", "master", "bridge", "up")
            ip("-n", spaces[i], "address", "add", f"10.77.0.{i + 1}/24", "dev", "wire")
            ip("-n", spaces[i], "link", "set", "wire", "up")
            ip("-n", spaces[i], "link", "set", "lo", "up")
        running = []
        for i, name in enumerate(names):
            neighbors = [j for j in (i - 1, i + 1) if 0 <= j < 3]
            command = [
                "ip", "netns", "exec", spaces[i], binary, "--json", "gossip", "agent", "completion", parts[i],
                "-o", folder / f"{i}.safetensors", "--name", name, "--listen", f"10.77.0.{i + 1}:7001",
                *[w for j in neighbors for w in ("--neighbor", f"{names[j]}=10.77.0.{j + 1}:7001")],
                "--authority", keys / "authority.pem", "--certificate", keys / f"{name}.pem",
                "--key", keys / f"{name}.key", "--state", folder / f"state-{i}", "--items", items,
                "--rounds", rounds * len(neighbors), "--deadline", 2, "--slow", 10, *LIFE,
            ]
            out = open(folder / f"{i}.out", "w")
            running.append(subprocess.Popen(list(map(str, command)), stdout=out))
        time.sleep(2)
        ip("-n", hub, "link", "set", "port2", "down")
        time.sleep(4)
        ip("-n", hub, "link", "set", "port2", "up")
        codes = [one.wait(300) for one in running]
        found = [json.loads((folder / f"{i}.out").read_text()) for i in range(3)]
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL)
    failed = sum(n["failed"] for one in found for n in one["status"]["neighbors"].values())
    cost = sum(one["cost"] for one in found)
    return {"a link down for 4 s": {"codes": codes, "relative": cost / quiet - 1, "failed_exchanges": failed}}


def speed(binary, data, folder):
    """A slot of the simulation and a round over TLS, 10,000 items by 100,000 users."""
    source = random.Random(7)
    path = folder / "big.csv.gz"
    item = [[source.gauss(0, 1) for _ in range(5)] for _ in range(10_000)]
    with gzip.open(path, "wt", compresslevel=1) as out:
        out.write("user,item,rating\n")
        for u in range(100_000):
            w = [source.gauss(0, 1) for _ in range(5)]
            for j in source.sample(range(10_000), 20):
                out.write(f"{u},{j},{sum(x * z for x, z in zip(w, item[j])):.3f}\n")
    common = ["--agents", 2, "--rank", 5, "--regularization", 0.01, "--center", 0, "--rho", 1000, "--trust", 0.5,
              "--init", "shared"]
    rows = {}
    for kind, more in [("simulation", ["--mean-only"]), ("network", ["--network"])]:
        seconds = {}
        for slots in [10, 60]:
            found = call(binary, "gossip", "run", "completion", path, *common, *more, "--slots", slots,
                         "-o", folder / "m.safetensors")
            seconds[slots] = found["seconds"]
            size = found["bytes"] / max(found["messages"], 1)
        rows[kind] = {"seconds_a_slot": (seconds[60] - seconds[10]) / 50, "bytes_a_message": size}
    rows["ratio"] = rows["network"]["seconds_a_slot"] / rows["simulation"]["seconds_a_slot"]
    rows["bound_bytes_a_message"] = 8 * 10_000 * 5
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=["movielens", "tasks", "life", "namespaces", "speed"])
    parser.add_argument("--binary", default="target/release/rankfold")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--keep", type=Path, required=True)
    given = parser.parse_args()
    kept = json.loads(given.keep.read_text()) if given.keep.exists() else {}
    for part in given.parts:
        with tempfile.TemporaryDirectory() as folder:
            found = globals()[part](os.path.abspath(given.binary), given.data.resolve(), Path(folder))
        kept[part] = found
        given.keep.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        for name, row in found.items():
            print(part, name, row, flush=True)


if __name__ == "__main__":
    main()
