"""Runs items of the papers, and writes their pages."""

import concurrent.futures
import sys
import time

from reproduce import aroma, fixed_rank, gossip, loreta, page, psd
from reproduce.items import measured_safely

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

    def __init__(self, pairs, quick, jobs):
        self.budget = {(p.name, i.name): max(i.quick if quick else i.minutes, 0.01) for p, i in pairs}
        self.left, self.jobs = sum(self.budget.values()), jobs
        self.total, self.done, self.started = len(pairs), 0, time.monotonic()

    def tell(self, paper, item, failure):
        self.done += 1
        finished = sum(self.budget.values())
        self.left -= self.budget[(paper.name, item.name)]
        passed = (time.monotonic() - self.started) / 60
        # Budgets are CPU time of one core; the machine shows how it compares.
        pace = passed / max(finished - self.left, 0.01)
        print(f"[{self.done}/{self.total}] {paper.name} {item.name}: {'failed' if failure else 'done'} after "
              f"{passed:.1f} min, about {self.left * pace:.0f} min left", file=sys.stderr, flush=True)
        if failure:
            print(failure, file=sys.stderr, flush=True)


def main(data, quick, jobs, action, name="", item=""):
    pairs, quick, jobs = chosen(name, item), quick == "1", int(jobs)
    if action == "list":
        return listed(pairs)
    failed = []
    if action == "run":
        progress = Progress(pairs, quick, jobs)
        with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
            futures = {pool.submit(measured_by_name, p.name, i.name, data, quick): (p, i) for p, i in pairs}
            try:
                for future in concurrent.futures.as_completed(futures):
                    failure = future.result()
                    progress.tell(*futures[future], failure)
                    failed += [futures[future]] if failure else []
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                print("stopped; what was measured is kept, and the same command goes on from there", file=sys.stderr)
                raise SystemExit(130) from None
    page.write(PAPERS, data)
    print(f"wrote {page.DOCS / 'reproduction.html'}", file=sys.stderr)
    if failed:
        sys.exit(1)


def measured_by_name(name, item, data, quick):
    """By names, because functions do not travel between processes."""
    paper = next(paper for paper in PAPERS if paper.name == name)
    return measured_safely(paper, paper.item(item), data, quick)


if __name__ == "__main__":
    main(*sys.argv[1:])
