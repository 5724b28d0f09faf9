#!/usr/bin/env python3
"""Agents as processes on this machine, beside the simulation and batch.

    python3 scripts/network.py movielens|tasks|speed|hostile|life --binary target/release/rankfold \
        --data DATA --keep network.json

Every part prints its table and adds it to the file. All servers bind to 127.0.0.1.
"""

import argparse
import gzip
import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path


def call(binary, *arguments, check=True):
    done = subprocess.run([binary, "--json", *map(str, arguments)], capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout)


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


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


class Proxy(threading.Thread):
    """Carries connections to a port, and cuts, delays, blackholes or truncates them."""

    def __init__(self, target):
        super().__init__(daemon=True)
        self.target, self.mode, self.share, self.delay = target, "open", 0.0, 0.0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.random = random.Random(target)
        self.open = []
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            if self.mode == "cut":
                client.close()
                continue
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target), 5)
        except OSError:
            client.close()
            return
        pair = (client, server)
        self.open.append(pair)
        for one, other in [pair, pair[::-1]]:
            threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    def pump(self, one, other):
        try:
            while True:
                some = one.recv(65536)
                if not some:
                    break
                if self.mode == "blackhole":
                    continue
                if self.delay:
                    time.sleep(self.delay * self.random.random())
                # A failed exchange ends its connection, in the middle of what was said.
                if self.share and self.random.random() < self.share:
                    other.sendall(some[: len(some) // 2])
                    break
                other.sendall(some)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def cut(self):
        self.mode = "cut"
        for pair in self.open:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.open.clear()


class Agents:
    """Agents on a path, each reached by its neighbors through proxies."""

    def __init__(self, binary, folder, parts, items, options, rounds, proxies=True):
        self.binary, self.folder, self.options, self.rounds = binary, folder, options, rounds
        self.names = [f"site-{i}" for i in range(len(parts))]
        self.parts, self.items = parts, items
        self.ports = free_ports(len(parts))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        arguments = [word for name in self.names for word in ("--name", name)]
        call(binary, "gossip", "keys", folder / "keys", *arguments)
        self.edges = [(i, i + 1) for i in range(len(parts) - 1)]
        self.proxy = {}
        for a, b in self.edges:
            for one, other in [(a, b), (b, a)]:
                self.proxy[one, other] = Proxy(self.ports[other]) if proxies else None
        self.processes = {}
        self.slow = {}

    def neighbors(self, i):
        return [b if a == i else a for a, b in self.edges if i in (a, b)]

    def address(self, i, j):
        proxy = self.proxy[i, j]
        return f"{self.names[j]}=127.0.0.1:{proxy.port if proxy else self.ports[j]}"

    def start(self, i):
        name, keys = self.names[i], self.folder / "keys"
        neighbors = [word for j in self.neighbors(i) for word in ("--neighbor", self.address(i, j))]
        command = [
            self.binary, "--json", "gossip", "agent", "completion", self.parts[i],
            "-o", self.folder / f"{i}.safetensors", "--name", name, "--listen", f"127.0.0.1:{self.ports[i]}",
            *neighbors, "--authority", keys / "authority.pem", "--certificate", keys / f"{name}.pem",
            "--key", keys / f"{name}.key", "--state", self.folder / f"state-{i}", "--items", self.items,
            "--rounds", self.rounds * len(self.neighbors(i)), "--deadline", 3, "--save-every", 1, "--wait", 20,
            "--slow", self.slow.get(i, 0), *self.options,
        ]
        out, err = open(self.folder / f"{i}.out", "w"), open(self.folder / f"{i}.err", "a")
        self.processes[i] = subprocess.Popen(list(map(str, command)), stdout=out, stderr=err)

    def status(self, i):
        name, keys = self.names[i], self.folder / "keys"
        try:
            return call(self.binary, "gossip", "status", f"127.0.0.1:{self.ports[i]}", "--authority",
                        keys / "authority.pem", "--certificate", keys / f"{name}.pem", "--key",
                        keys / f"{name}.key", "--deadline", 5)
        except (SystemExit, ValueError):
            return None

    def until_round(self, i, round_):
        while True:
            found = self.status(i)
            if (found and found["round"] >= round_) or self.processes[i].poll() is not None:
                return found
            time.sleep(0.05)

    def finish(self):
        out = []
        for i in sorted(self.processes):
            code = self.processes[i].wait(600)
            text = (self.folder / f"{i}.out").read_text()
            out.append((code, json.loads(text) if text else None))
        return out

    def cost(self):
        found = self.finish()
        for code, json_ in found:
            assert code == 0, [(c, (self.folder / f"{i}.err").read_text()) for i, (c, _) in enumerate(found)]
        return sum(json_["cost"] for _, json_ in found), found


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


LIFE = ["--rank", 3, "--regularization", 0.01, "--center", 3]


def life(binary, data, folder):
    """A scripted life, against the quiet run of the same agents."""
    parts, items = planted(folder / "data", 5)
    options = [*LIFE, "--rho", 60]
    rounds = 400
    quiet = Agents(binary, folder / "quiet", parts, items, options, rounds, proxies=False)
    for i in range(5):
        quiet.start(i)
    base, _ = quiet.cost()
    rows = {"quiet": {"cost": base}}

    def record(name, agents, start, **more):
        cost, found = agents.cost()
        failed = sum(n["failed"] for _, j in found for n in j["status"]["neighbors"].values())
        rows[name] = {"cost": cost, "relative": cost / base - 1, "seconds": time.time() - start,
                      "failed_exchanges": failed, **more}
        print(name, rows[name], flush=True)

    def agents_of(name):
        return Agents(binary, folder / name, parts, items, options, rounds)

    start = time.time()
    a = agents_of("failing")
    for proxy in a.proxy.values():
        proxy.share = 0.1
    for i in range(5):
        a.start(i)
    record("about 30 % of exchanges fail", a, start)

    start = time.time()
    a = agents_of("killed")
    a.slow = {i: 10 for i in range(5)}
    for i in range(5):
        a.start(i)
    returns = []
    for kill in range(10):
        before = a.until_round(2, 20 * (kill + 1))
        if a.processes[2].poll() is not None:
            break
        a.processes[2].kill()
        a.processes[2].wait()
        a.start(2)
        since = time.time()
        a.until_round(2, 1)
        returns.append(time.time() - since)
    record("one killed with -9 ten times", a, start, kills=len(returns), slowest_return=max(returns))

    start = time.time()
    a = agents_of("partition")
    a.slow = {i: 10 for i in range(5)}
    for i in range(5):
        a.start(i)
    a.until_round(0, rounds // 3)
    for edge in [(1, 2), (2, 1)]:
        a.proxy[edge].cut()
    a.until_round(0, 2 * rounds // 3)
    for edge in [(1, 2), (2, 1)]:
        a.proxy[edge].mode = "open"
    record("a partition for a third of the run", a, start)

    start = time.time()
    a = agents_of("slow")
    a.slow = {0: 20, 1: 2, 2: 2, 3: 2, 4: 2}
    for i in range(5):
        a.start(i)
    record("a slow agent", a, start)

    start = time.time()
    a = agents_of("late")
    a.slow = {i: 10 for i in range(5)}
    a.options = [*options]
    for i in range(4):
        a.start(i)
    time.sleep(22)
    a.start(4)
    record("an agent that joins late", a, start)

    start = time.time()
    a = agents_of("delayed")
    for proxy in a.proxy.values():
        proxy.delay = 0.02
    a.proxy[3, 4].mode = "blackhole"
    for i in range(5):
        a.start(i)
    time.sleep(8)
    a.proxy[3, 4].mode = "open"
    record("delays, and a black hole for 8 s", a, start)
    return rows


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
    parser.add_argument("parts", nargs="+", choices=["movielens", "tasks", "life", "speed"])
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
