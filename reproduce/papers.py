"""Runs items of the papers, and writes their pages."""

import multiprocessing
import sys
import time

from reproduce import aroma, fixed_rank, gossip, loreta, page, psd
from reproduce.items import measured_safely, recheck

PAPERS = [loreta.PAPER, fixed_rank.PAPER, aroma.PAPER, gossip.PAPER, psd.PAPER]


def chosen(name, item):
    """The papers and items that were asked for."""
    papers = [paper for paper in PAPERS if name in ("", paper.name)]
    pairs = [(paper, one) for paper in papers for one in paper.items
             if one.run is not None and item in ("", one.name)]
    if not pairs:
        names = [f"{paper.name} {one.name}" for paper in papers for one in paper.items if one.run]
        sys.exit(f"no item `{name} {item}`; there are: {', '.join(names)}")
    return pairs


def listed(pairs):
    for paper, item in pairs:
        print(f"{paper.name:<11} {item.name:<24} {item.minutes:6g} CPU min, quick {item.quick:g}: {item.place}")


class Progress:
    """Tells what is done, and how long the rest may take by the budgets of items."""

    def __init__(self, pairs, quick):
        self.budget = {(p.name, i.name): max(i.quick if quick else i.minutes, 0.01) for p, i in pairs}
        self.left = sum(self.budget.values())
        self.total, self.done, self.started = len(pairs), 0, time.monotonic()

    def tell(self, paper, item, failure):
        self.done += 1
        finished = sum(self.budget.values())
        self.left -= self.budget[(paper, item)]
        passed = (time.monotonic() - self.started) / 60
        # Budgets are CPU time of one core; the machine shows how it compares.
        pace = passed / max(finished - self.left, 0.01)
        print(f"[{self.done}/{self.total}] {paper} {item}: {'failed' if failure else 'done'} after "
              f"{passed:.1f} min, about {self.left * pace:.0f} min left", file=sys.stderr, flush=True)
        if failure:
            print(failure, file=sys.stderr, flush=True)


def main(data, quick, jobs, action, name="", item=""):
    pairs, quick, jobs = chosen(name, item), quick == "1", int(jobs)
    if action == "list":
        return listed(pairs)
    failed = []
    if action == "run":
        progress = Progress(pairs, quick)
        # The cheapest first, so that a run that is stopped has decided as many as it could.
        pairs = sorted(pairs, key=lambda pair: pair[1].quick if quick else pair[1].minutes)
        asked = [(paper.name, one.name, data, quick) for paper, one in pairs]
        # Leaving the pool ends its processes.
        with multiprocessing.Pool(jobs) as pool:
            try:
                for name, item, failure in pool.imap_unordered(measured_by_name, asked):
                    progress.tell(name, item, failure)
                    failed += [item] if failure else []
            except KeyboardInterrupt:
                print("stopped; what was measured is kept, and the same command goes on from there", file=sys.stderr)
                raise SystemExit(130) from None
    if action == "recheck":
        for paper, one in pairs:
            told = recheck(paper, one, data)
            if told:
                print(f"{paper.name} {one.name}: {told}", file=sys.stderr, flush=True)
    page.write(PAPERS, data)
    print(f"wrote {page.DOCS / 'reproduction.html'}", file=sys.stderr)
    if failed:
        sys.exit(1)


def measured_by_name(asked):
    """By names, because functions do not travel between processes."""
    name, item, data, quick = asked
    paper = next(paper for paper in PAPERS if paper.name == name)
    return name, item, measured_safely(paper, paper.item(item), data, quick)


if __name__ == "__main__":
    main(*sys.argv[1:])
