"""Runs programs, measures their CPU time, and keeps what they reached."""

import functools
import hashlib
import json
import math
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("RANKFOLD_BINARY", ROOT / "target" / "release" / "rankfold"))


class NotMeasured(Exception):
    """What is only to be read was never measured."""


class Lab:
    """Experiments that are run once for each binary."""

    # Whether what is not there yet is measured.
    measures = True

    def __init__(self, keep, data, builds=()):
        self.keep, self.data = Path(keep), Path(data)
        self.folder = Path(tempfile.mkdtemp(prefix="rankfold-"))
        # A copy, so that a build in the meantime changes nothing.
        self.binary = Path(shutil.copy(BINARY, self.folder))
        self.examples = BINARY.parent / "examples"
        self.build = hashlib.sha256(self.binary.read_bytes()).hexdigest()[:12]
        # Builds whose results still count: nothing that was measured has changed since.
        self.builds = {self.build, *builds}
        self.kept = json.loads(self.keep.read_text()) if self.keep.exists() else {}

    def once(self, name, version, work):
        """What `work` measures; kept as long as the version is the same."""
        kept = self.kept.get(name)
        known = self.builds if version == self.build else {version}
        if kept is None or kept["version"] not in known:
            if not self.measures:
                raise NotMeasured(name)
            print(f"  {name}", file=sys.stderr, flush=True)
            kept = {"version": version, **work()}
            self.kept[name] = kept
            self.keep.write_text(json.dumps(self.kept, indent=1, sort_keys=True) + "\n")
        return kept

    def said(self):
        """What the page should say where results of several builds stand together."""
        others = {kept["version"] for kept in self.kept.values()} & self.builds - {self.build}
        if not others:
            return ""
        return (f"\nSome lines of rankfold were measured by an earlier build ({', '.join(sorted(others))}, in peers.json) "
                "and kept, because what they measure has not changed since.\n")

    def rankfold(self, *words):
        """The JSON that a command prints, and its CPU seconds."""
        command = [str(self.binary), *map(str, words), "--json", "--quiet"]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(command, stdout=out, stderr=err)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0), err.seek(0)
            if process.returncode:
                raise RuntimeError(f"{' '.join(command)}\n{err.read().decode()}")
            return json.loads(out.read() or b"null"), used.ru_utime + used.ru_stime


    def example(self, name, *words):
        """The JSON that an example of the library prints."""
        command = [str(self.examples / name), *map(str, words)]
        found = subprocess.run(command, capture_output=True, text=True)
        if found.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{found.stderr}")
        return json.loads(found.stdout)


def measured(work):
    """What a function returns, and its CPU seconds, in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            result = (True, work())
        except Exception as error:  # A peer that fails is named on the page.
            result = (False, f"{type(error).__name__}: {error}")
        with os.fdopen(write, "wb") as out:
            pickle.dump(result, out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as source:
        try:
            fine, result = pickle.load(source)
        except EOFError:
            fine, result = False, "the process died"
    _, _, used = os.wait4(child, 0)
    if not fine:
        raise RuntimeError(result)
    return result, used.ru_utime + used.ru_stime


def mean(values):
    return sum(values) / len(values)


def error(values):
    """The standard error of a mean."""
    if len(values) < 2:
        return math.nan
    m = mean(values)
    return math.sqrt(sum((v - m) ** 2 for v in values) / (len(values) - 1) / len(values))


def shown(values, digits=4):
    """A mean with its standard error."""
    m, e = mean(values), error(values)
    return f"{m:.{digits}f}" + ("" if math.isnan(e) else f" ± {e:.{digits}f}")


def table(head, lines):
    """A table of Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


# The papers.

# Folders of the library that a run of another task does not depend on.
TASKS = ("completion", "gossip", "kernel", "metric", "multitask", "pairs", "ranking", "recommend", "similarity")
ONLINE = ("similarity", "ranking", "pairs")


def plain(name):
    """The task of a baseline that is a plain program of this folder."""
    return f"plain/{name}"


def sources(task):
    """The files that decide what a run of a task comes to."""
    if task.startswith("plain/"):
        return [ROOT / "reproduce" / f"{task}.py"]
    library = ROOT / "crates" / "rankfold" / "src"
    if task.startswith("example/"):
        # Examples use learners and solvers, and no tasks.
        left_out = ("task/", "gossip/", "model/", "eval/", "data/")
        files = [path for path in sorted(library.rglob("*.rs")) if not path.relative_to(library).as_posix().startswith(left_out)]
        return [*files, library.parent / "examples" / f"{task.removeprefix('example/')}.rs", ROOT / "Cargo.lock"]
    # No run merges models or turns them into files of other programs.
    left_out = ["model/merge/", "model/exchange/", *(f"task/{other}/" for other in TASKS if other != task)]
    if task == "gossip":
        left_out = [name for name in left_out if name not in ("task/completion/", "task/multitask/")]
    else:
        left_out.append("gossip/")
    if task in ONLINE[:2]:
        left_out += ["batch/", "manifold/"]
    files = [path for path in sorted(library.rglob("*.rs"))
             if not any(path.relative_to(library).as_posix().startswith(name) for name in left_out)]
    return [*files, ROOT / "Cargo.lock"]


def bare(text):
    """A source without comments on lines of their own and without its tests, which decide nothing."""
    text = text.split("\n#[cfg(test)]\nmod ")[0]
    return "\n".join(line for line in map(str.strip, text.splitlines()) if line and not line.startswith("//"))


@functools.cache
def fingerprint(task):
    """A hash of the sources of a task."""
    digest = hashlib.sha256()
    for path in sources(task):
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(bare(path.read_text()).encode())
    return digest.hexdigest()[:12]


@functools.cache
def commit():
    """The commit that is built, with a mark where files differ from it."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "crates", "Cargo.lock")
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + ("+" if changed else "")


class Missing(Exception):
    """Something has not been measured, and is not to be measured now."""


class Notebook:
    """The results of an item, one for each command. They are written as they come, so that a run can be
    stopped and continued."""

    def __init__(self, path, task, measure):
        self.path, self.task, self.measure = Path(path), task, measure
        self.kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.used = {}
        self.again = None  # Commands to run again, and no others, to see whether they still come to the same.
        self.differ = []

    def once(self, command, work, task=None):
        """What `work` comes to, which runs this command. It is not run again for the same sources, here or
        for another item."""
        task = task or self.task
        known = self.kept.get(command)
        if self.measure and self.again is None and not self.current(known, task):
            known = self.elsewhere(command, task) or self.run(work, task)
            self.kept[command] = known
            self.write()
        if known is None:
            raise Missing(command)
        if self.again and command in self.again:
            fresh = self.run(work, task)
            self.again.discard(command)
            if timeless(fresh["result"]) != timeless(known["result"]):
                self.differ.append(command)
        self.used[command] = known
        return known["result"]

    def current(self, known, task):
        return known is not None and fingerprint(known.get("task", task)) in (known["sources"], known.get("checked"))

    def elsewhere(self, command, task):
        """The same command in the notebook of another item."""
        for path in sorted(self.path.parent.glob("*.json")):
            known = path != self.path and json.loads(path.read_text()).get(command)
            if known and self.current(known, task):
                return known
        return None

    def run(self, work, task):
        before = spent()
        result = work()
        return {"sources": fingerprint(task), "build": commit(), "task": task,
                "cpu": round(spent() - before, 2), "result": result}

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self.kept, indent=1, sort_keys=True) + "\n")
        fresh.replace(self.path)

    def builds(self):
        """The builds of what was used, and whether the sources have changed since."""
        stale = any(not self.current(known, self.task) for known in self.used.values())
        return sorted({known["build"] for known in self.used.values()}), stale

    def cpu(self):
        return sum(known["cpu"] for known in self.used.values())

    def stale(self):
        return {name: known for name, known in self.used.items() if not self.current(known, self.task)}


# What may differ between two runs of the same command.
TIMES = ("cpu", "seconds")


def timeless(result):
    """A result without the times it took."""
    if isinstance(result, dict):
        return {name: timeless(value) for name, value in result.items() if name not in TIMES}
    return [timeless(value) for value in result] if isinstance(result, list) else result


def spent():
    """CPU seconds of this process and of those that it has started and seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
