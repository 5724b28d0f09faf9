"""Load figures of `rankfold serve`, for docs/results/service.md.

    python3 scripts/service_load.py BINARY [--rows 20000] [--seconds 10] [--index hnsw] [--soak 0]

Makes rows, trains a similarity of rank 30, and asks: in process, over HTTP at 1 and 32 connections,
and with 1,000 feedbacks a second beside it. Needs `ab` (Debian's apache2-utils). Prints JSON.
"""

import argparse
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time


def make_rows(path, rows, seed=1):
    """Sparse rows around 200 centers, 20 of 2,000 features each."""
    numbers = random.Random(seed)
    centers = [numbers.sample(range(1, 2001), 24) for _ in range(200)]
    with open(path, "w") as out:
        for i in range(rows):
            own = centers[i % 200]
            features = set(numbers.sample(own, 14)) | set(numbers.sample(range(1, 2001), 6))
            entries = " ".join(f"{j}:{numbers.uniform(0.5, 1.5):.2f}" for j in sorted(features))
            out.write(f"{i % 200} {entries}\n")


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def ab(url, body, folder, connections, seconds, pid):
    """Queries a second, p50 and p99 in ms, and processor time a query, at so many connections."""
    before = cpu_seconds(pid)
    path = os.path.join(folder, "body.json")
    with open(path, "w") as out:
        out.write(body)
    said = run("ab", "-k", "-q", "-c", str(connections), "-t", str(seconds), "-n", "10000000",
               "-p", path, "-T", "application/json", url)
    number = lambda pattern: float(re.search(pattern, said).group(1))
    return {
        "connections": connections,
        "per_second": number(r"Requests per second:\s+([\d.]+)"),
        "p50_ms": number(r"\n\s+50%\s+(\d+)"),
        "p99_ms": number(r"\n\s+99%\s+(\d+)"),
        "cpu_ms": 1e3 * (cpu_seconds(pid) - before) / max(1.0, number(r"Complete requests:\s+(\d+)")),
        "not_2xx": float((re.search(r"Non-2xx responses:\s+(\d+)", said) or [0, 0])[1]),
    }


class Teacher(threading.Thread):
    """Sends feedback at a steady rate, in requests of ten."""

    def __init__(self, address, rows, rate):
        super().__init__(daemon=True)
        self.address, self.rows, self.rate = address, rows, rate
        self.done = self.failed = 0
        self.stopped = False

    def run(self):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        numbers, start, sent = random.Random(5), time.time(), 0
        while not self.stopped:
            pick = lambda: str(numbers.randrange(self.rows))
            many = [{"query": pick(), "positive": pick(), "negative": pick()} for _ in range(10)]
            connection.request("POST", "/v1/feedback", json.dumps(many), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            self.failed += answer.status != 200
            self.done += 10
            sent += 10
            time.sleep(max(0.0, start + sent / self.rate - time.time()))
        self.seconds = time.time() - start


def cpu_seconds(pid):
    """Processor time of a process so far: what a busy machine does not change much."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def get(address, path):
    connection = http.client.HTTPConnection(address, timeout=120)
    connection.request("GET", path)
    return json.loads(connection.getresponse().read())


def memory_mb(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--index", default="exact")
    parser.add_argument("--soak", type=int, default=0, help="seconds of mixed load at the end")
    parser.add_argument("--keep", help="a folder for rows and model, used again")
    options = parser.parse_args()
    binary = os.path.abspath(options.binary)
    folder = options.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    rows, model = os.path.join(folder, "rows.svm"), os.path.join(folder, "m.safetensors")
    if not os.path.exists(model):
        make_rows(rows, options.rows)
        head = os.path.join(folder, "head.svm")
        with open(rows) as whole, open(head, "w") as out:
            out.writelines(line for line, _ in zip(whole, range(5000)))
        run(binary, "train", "similarity", head, "-o", model, "--rank", "30", "--steps", "20000",
            "--step-size", "0.1", "--quiet")
    report = {"rows": options.rows, "index": options.index, "cores": os.cpu_count(), "load": os.getloadavg()[0]}

    def in_process(*queries):
        before = os.times()
        said = run(binary, "neighbors", model, rows, "-k", "10", "--json", *queries)
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return json.loads(said)["seconds"], cpu

    if options.rows <= 50_000:
        # Without reading and projecting the rows, which one query costs as well.
        one, all_rows = in_process("--query", "0"), in_process()
        report["in_process"] = {
            "per_second": options.rows / max(all_rows[0] - one[0], 1e-9),
            "cpu_ms": 1e3 * (all_rows[1] - one[1]) / options.rows,
        }
    journal = os.path.join(folder, "journal")
    shutil.rmtree(journal, ignore_errors=True)
    command = [binary, "serve", model, "--rows", rows, "--learn", "--journal", journal, "--listen",
               "127.0.0.1:0", "--index", options.index, "--max-batch", "10000"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        start = time.time()
        url = service.stdout.readline().split("listening on ")[1].strip()
        address = url.split("//")[1]
        report["start_seconds"] = time.time() - start
        model_now = get(address, "/v1/model")
        report["recall"], report["index_seconds"] = model_now["recall"], model_now["index_seconds"]
        ask = '{"id":"17","k":10}'
        neighbors = url + "/v1/neighbors"
        report["quiet"] = [ab(neighbors, ask, folder, c, options.seconds, service.pid) for c in (1, 32)]
        if options.index != "exact":
            exact = '{"id":"17","k":10,"exact":true}'
            report["exact"] = [ab(neighbors, exact, folder, c, options.seconds, service.pid) for c in (1, 32)]
        teacher = Teacher(address, options.rows, 1000)
        teacher.start()
        report["taught"] = [ab(neighbors, ask, folder, 32, options.seconds, service.pid)]
        report["visible_after_ms"] = get(address, "/v1/model")["visible_after_ms"]
        teacher.stopped = True
        teacher.join()
        report["feedback_per_second"] = teacher.done / teacher.seconds
        report["feedback_failed"] = teacher.failed
        if options.soak:
            teacher = Teacher(address, options.rows, 500)
            teacher.start()
            memory, failed = [], 0.0
            until = time.time() + options.soak
            while time.time() < until:
                found = ab(neighbors, ask, folder, 8, min(30, options.soak), service.pid)
                failed += found["not_2xx"]
                memory.append(round(memory_mb(service.pid)))
            teacher.stopped = True
            teacher.join()
            report["soak"] = {"seconds": options.soak, "memory_mb": memory, "failed": failed + teacher.failed,
                              "taught": teacher.done}
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(timeout=120)
    print(json.dumps(report, indent=1))
    if not options.keep:
        shutil.rmtree(folder)


main()
