"""Items of the papers: what is printed, how it is run here, and what came of it."""

import dataclasses
import shutil
import traceback
from pathlib import Path

from reproduce.lab import ROOT, Lab, Missing, Notebook, fingerprint

RESULTS = ROOT / "reproduce" / "results"

CONFIRMED, PARTLY, NOT = "confirmed", "partly", "not confirmed"
CANNOT, NOT_RUN = "cannot be run", "not run yet"


@dataclasses.dataclass
class Outcome:
    """What an item came to."""

    verdict: str
    ours: str
    tables: list = dataclasses.field(default_factory=list)  # (title, head, lines)
    figures: list = dataclasses.field(default_factory=list)  # figure.Chart
    builds: list = dataclasses.field(default_factory=list)
    stale: bool = False
    quick: bool = False
    cpu: float = 0.0
    rounds: tuple = ()  # How many seeds or splits ran, of how many.


@dataclasses.dataclass
class Item:
    """A table, a figure or a claim."""

    name: str
    place: str
    says: str  # What the paper says.
    command: str = ""
    task: str = ""
    minutes: float = 0  # CPU minutes of the whole run, and of a quick one.
    quick: float = 0
    run: object = None  # A function of a Bench that gives an Outcome.
    why_not: str = ""  # Why it cannot be run.
    tests: str = ""  # The tests of the library that show it.


@dataclasses.dataclass
class Algorithm:
    """An algorithm or an option of a paper, and where it is."""

    place: str
    what: str
    where: str  # A command, or a path in the library; empty where it is missing.


@dataclasses.dataclass
class Paper:
    name: str
    title: str
    authors: str
    algorithms: list
    items: list

    def item(self, name):
        return next((item for item in self.items if item.name == name), None)


class Bench:
    """What an item is run with: data, a folder, a notebook, and whether to be quick."""

    def __init__(self, paper, item, data, quick, measure):
        self.quick = quick
        folder = RESULTS / "quick" if quick else RESULTS
        self.notes = Notebook(folder / f"{paper.name}-{item.name}.json", item.task, measure)
        self.lab = Lab(RESULTS / "unused.json", data) if measure else None
        self.data = Path(data)
        self.ran = (0, 0)

    def rounds(self, seeds, one):
        """What each seed or split comes to. Seeds come one after the other, so that whatever ran is a whole
        comparison; where nothing is measured, those that ran count."""
        seeds, found = list(seeds), []
        for seed in seeds:
            try:
                found.append(one(seed))
            except Missing:
                if not found:
                    raise
                break
        share = (len(found), len(seeds))
        if not self.ran[1] or share[0] * self.ran[1] < self.ran[0] * share[1]:
            self.ran = share
        return found

    def pick(self, whole, quick):
        return quick if self.quick else whole

    def once(self, command, work, task=None):
        return self.notes.once(command, work, task)

    def close(self):
        if self.lab:
            shutil.rmtree(self.lab.folder, ignore_errors=True)


def judged(holds):
    """The verdict on a claim that should hold in several cases."""
    holds = list(holds)
    return CONFIRMED if all(holds) else PARTLY if any(holds) else NOT


def outcome(paper, item, data, quick, measure):
    """What an item comes to; measured where it is asked for and not known."""
    if item.why_not:
        return Outcome(CANNOT, item.why_not)
    if item.tests:
        return Outcome(CONFIRMED, f"shown by tests: {item.tests}")
    if item.run is None:
        return Outcome(NOT_RUN, "")
    bench = Bench(paper, item, data, quick, measure)
    try:
        found = item.run(bench)
    except Missing:
        return Outcome(NOT_RUN, "")
    finally:
        bench.close()
    found.builds, found.stale = bench.notes.builds()
    found.quick, found.cpu, found.rounds = quick, bench.notes.cpu(), bench.ran
    return found


def known(paper, item, data):
    """The outcome of the whole run; without one, that of a quick run."""
    whole = outcome(paper, item, data, False, False)
    if whole.verdict != NOT_RUN:
        return whole
    cut = outcome(paper, item, data, True, False)
    return cut if cut.verdict != NOT_RUN else whole


# CPU seconds that may be spent on one item to see whether its figures still hold.
RECHECK = 60


def recheck(paper, item, data):
    """Runs the cheapest command of each learner of an item again where sources have changed since. Where all
    come to the same bits, the item counts as made by these sources. Says what came of it."""
    if item.run is None:
        return ""
    bench = Bench(paper, item, data, False, False)
    try:
        item.run(bench)
    except Missing:
        return ""
    stale = bench.notes.stale()
    if not stale:
        return ""
    cheapest, spent = {}, 0.0
    for command, known in sorted(stale.items(), key=lambda pair: pair[1]["cpu"]):
        learner = command.split("--learner ")[-1].split()[0] if "--learner" in command else command.split()[0]
        if learner not in cheapest and (not cheapest or spent + known["cpu"] < RECHECK):
            cheapest[learner] = command
            spent += known["cpu"]
    bench = Bench(paper, item, data, False, True)
    bench.notes.again = set(cheapest.values())
    try:
        item.run(bench)
    except Missing:
        pass
    finally:
        bench.close()
    if bench.notes.again or bench.notes.differ:
        return f"{len(bench.notes.differ)} of {len(cheapest)} commands come to other figures: it has to be run again"
    for command in stale:
        known = bench.notes.kept[command]
        known["checked"] = fingerprint(known.get("task", item.task))
    bench.notes.write()
    return f"{len(cheapest)} of {len(stale)} commands were run again and came to the same bits"


def measured_safely(paper, item, data, quick):
    """Measures an item; what went wrong is told, and others go on."""
    try:
        outcome(paper, item, data, quick, True)
        return ""
    except Exception:
        return traceback.format_exc()
