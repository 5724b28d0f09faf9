#!/usr/bin/env python3
"""Label ranking on bibtex, corel5k and delicious, to docs/results/labels.md.

    python3 scripts/labels.py DATA --keep labels.json

DATA has the folders bibtex, corel5k and delicious. Every method gets its step, or C,
and its number of passes on a fifth of the training rows that is held out; then it is
trained on all training rows with these and measured once on the test rows. --keep
FILE stores the figures of every run, so that the page can be made again without
them; the file is used only with the binary that made it.
"""

import argparse
import hashlib
import json
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/results/labels.md"

SEED = 1
SETS = ["corel5k", "bibtex", "delicious"]
RANKS = [10, 50, 100]
INITS = ["zero", "identity", "gaussian"]
HELD_OUT = 0.2
PATIENCE = 6
STEPS = [0.01, 0.03, 0.1, 0.3, 1, 3]
CAPS = [0.003, 0.01, 0.03, 0.1, 0.3, 1]
# Perceptrons have a margin of 1 and rows of length one.
FULL_STEPS = [0.003, 0.01, 0.03, 0.1, 0.3, 1, 3]
WARP_STEPS = [0.1, 0.3, 1]
PLAIN = "--bias-step 0 --popularity 0"
BIASED = "--bias-step 0.01 --popularity 0.2"
PASSES, WARP_PASSES = 10, 60

# What others have, from other programs: popularity, ridge, logistic regression.
PEERS = {"corel5k": (.327, .304), "bibtex": (.591, .598), "delicious": (.372, None)}
REACH = {"corel5k": (100, .32), "bibtex": (100, .565), "delicious": (50, .29)}
STRETCH = {"corel5k": .327, "bibtex": .60, "delicious": .372}


class Lab:
    """Makes runs, each once."""

    def __init__(self, data, binary, folder, keep):
        self.data, self.binary, self.folder, self.keep = data, binary, folder, keep
        self.hash = hashlib.sha256(binary.read_bytes()).hexdigest()[:16]
        self.kept = {}
        if keep and keep.exists():
            stored = json.loads(keep.read_text())
            if stored["binary"] == self.hash:
                self.kept = stored["runs"]

    def command(self, *arguments):
        command = [str(self.binary), *map(str, arguments), "--json"]
        out = subprocess.run(command, capture_output=True, text=True)
        if out.returncode:
            raise SystemExit(f"{' '.join(command)}\n{out.stderr}")
        return json.loads(out.stdout)

    def once(self, key, work):
        if key not in self.kept:
            print(key, flush=True)
            self.kept[key] = work()
            if self.keep:
                self.keep.write_text(json.dumps({"binary": self.hash, "runs": self.kept}))
        return self.kept[key]

    def train(self, name, options, more):
        model = self.folder / "model.safetensors"
        folder = self.data / name
        return model, self.command(
            "train", "ranking", folder / f"{name}-train.svm.gz", "-o", model,
            "--label-names", folder / f"{name}.labels.txt", "--weight", "tfidf",
            "--normalize", "l2", "--seed", SEED, "--threads", 1, *options.split(), *more)

    def held_out(self, name, options, passes):
        """The best held-out mAP, and after how many steps and at most how many."""
        def work():
            curve = self.folder / "curve.jsonl"
            _, found = self.train(name, options, [
                "--epochs", passes, "--valid-fraction", HELD_OUT, "--patience", PATIENCE,
                "--curve", curve])
            points = [json.loads(line) for line in curve.read_text().splitlines()]
            best = max(points, key=lambda point: point["map"])
            return {"map": best["map"], "steps": best["steps"], "last": points[-1]["map"],
                    "stopped": found["stopped"], "seconds": found["seconds"]}
        return self.once(f"held out {name} {passes} {options}", work)

    def chosen(self, name, method):
        """The step or C with the best held-out mAP."""
        options, parameter, values, passes = method
        tried = {v: self.held_out(name, f"{options} --{parameter} {v}", passes) for v in values}
        value = max(tried, key=lambda v: tried[v]["map"])
        return value, tried[value]

    def test(self, name, method):
        """Trained on all training rows as long as was best on held-out ones."""
        options, parameter, _, _ = method
        value, held = self.chosen(name, method)
        steps = round(held["steps"] / (1 - HELD_OUT))

        def work():
            model, trained = self.train(name, f"{options} --{parameter} {value}",
                                        ["--steps", steps])
            folder = self.data / name
            found = self.command("eval", model, folder / f"{name}-test.svm.gz")
            return {"metrics": found["metrics"], "baseline": found["baseline"]["metrics"],
                    "rows": found["rows"], "skipped": found["skipped"],
                    "seconds": trained["seconds"], "updates": trained["updates"]}
        found = self.once(f"test {name} {steps} {options} {parameter} {value}", work)
        return {**found, "value": value, "steps": steps, "held_out": held["map"]}

    def map(self, name, method):
        return self.test(name, method)["metrics"]["map"]


# How figures look.

def short(value):
    return f"{value:.3f}".replace("0.", ".", 1)


def signed(value):
    return ("+" if value >= 0 else "−") + short(abs(value))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


# The methods.

def full(learner, gradient, bias=PLAIN):
    return (f"--learner {learner} --gradient {gradient} {bias}", "step-size", FULL_STEPS, PASSES)


def loreta(rank, init="zero", gradient="single", bias=PLAIN):
    return (f"--learner loreta --rank {rank} --init {init} --gradient {gradient} {bias}",
            "step-size", STEPS, PASSES)


def aggressive(rank, more=""):
    return (f"--learner passive-aggressive --rank {rank} --init identity {PLAIN}{more}",
            "aggressiveness", CAPS, PASSES)


def warp(rank, more="--average"):
    return (f"--learner loreta --rank {rank} --init identity --sampler warp {more}".strip(),
            "step-size", WARP_STEPS, WARP_PASSES)


BEYOND = [
    ("top", lambda rank: loreta(rank, "identity")),
    ("top, bias", lambda rank: loreta(rank, "identity", bias=BIASED)),
    ("WARP", lambda rank: warp(rank, PLAIN)),
    ("WARP, bias", lambda rank: warp(rank, "")),
    ("WARP, average", lambda rank: warp(rank, f"--average {PLAIN}")),
    ("WARP, average, bias", lambda rank: warp(rank)),
]
BEST = BEYOND[-1][1]


def main_table(lab):
    def line(name, methods):
        cells = []
        for data in SETS:
            cells.append(" / ".join(short(lab.map(data, m)) for m in methods))
        return [name, *cells]
    rows = [["label popularity", *(short(lab.test(d, loreta(50))["baseline"]["map"]) for d in SETS)]]
    for learner, name in [("perceptron", "matrix perceptron"), ("group-perceptron", "group perceptron")]:
        for gradient in ("single", "summed"):
            rows.append(line(f"{name}, {gradient}", [full(learner, gradient)]))
    rows.append(line("passive-aggressive, rank 10 / 50 / 100", [aggressive(r) for r in RANKS]))
    rows.append(line("passive-aggressive, summed, rank 10 / 50 / 100",
                     [aggressive(r, " --gradient summed") for r in RANKS]))
    for init in INITS:
        rows.append(line(f"LORETA from {init}, rank 10 / 50 / 100",
                         [loreta(r, init) for r in RANKS]))
    rows.append(line("LORETA from zero, summed, rank 50", [loreta(50, gradient="summed")]))
    return table(["method", *SETS], rows)


def beyond_table(lab):
    rows = []
    for name, method in BEYOND:
        rows.append([name, *(" / ".join(short(lab.map(d, method(r))) for r in RANKS) for d in SETS)])
    peers = [f"{short(ridge)} / {short(logistic) if logistic else '–'}"
             for ridge, logistic in PEERS.values()]
    rows.append(["ridge / logistic regression", *peers])
    return table(["LORETA, rank 10 / 50 / 100", *SETS], rows)


def chosen_table(lab):
    rows = []
    for rank in RANKS:
        for data in SETS:
            for name, method in [("LORETA from zero", loreta(rank)),
                                 ("passive-aggressive", aggressive(rank)),
                                 ("WARP, average, bias", BEST(rank))]:
                found = lab.test(data, method)
                metrics = found["metrics"]
                edge = "*" if found["value"] in (method[2][0], method[2][-1]) else ""
                rows.append([data, name, rank, f"{found['value']:g}{edge}", f"{found['steps']:,}",
                             short(found["held_out"]), short(metrics["map"]),
                             short(metrics["precision_at_1"]), short(metrics["precision_at_10"]),
                             f"{found['seconds']:.1f}"])
    rows.sort(key=lambda row: (SETS.index(row[0]), row[1], row[2]))
    head = ["data", "method", "rank", "step or C", "steps", "held-out mAP", "mAP", "P@1", "P@10", "s"]
    return table(head, rows)


def verdict(values):
    held = [v > 0 for v in values]
    return "confirmed" if all(held) else "partly" if any(held) else "**not reproduced**"


def claims(lab):
    def claim(text, gap, ranks=RANKS, least=0):
        """A gap in mAP that should be above the least, for each data set and rank."""
        values = {d: [gap(d, r) for r in ranks] for d in SETS}
        shown = "; ".join(f"{d} {' / '.join(map(signed, values[d]))}" for d in SETS)
        return [text, shown, verdict([v - least for d in SETS for v in values[d]])]

    def lead(method):
        return lambda d, r: lab.map(d, loreta(r)) - lab.map(d, method(r))

    def starts(d, r):
        return {init: lab.map(d, loreta(r, init)) for init in INITS}

    def ahead(init):
        def gap(d, r):
            found = starts(d, r)
            return found.pop(init) - max(found.values())
        return gap

    def spread(d, r):
        found = starts(d, r).values()
        return max(found) - min(found)

    def best_init(r):
        return max(INITS, key=lambda i: sum(lab.map(d, loreta(r, i)) for d in SETS))

    rows = [
        claim("LORETA (from zero) is better than iterative passive-aggressive learning at all ranks, "
              "10 / 50 / 100", lead(aggressive)),
        claim("– and than the matrix perceptron of full rank",
              lead(lambda r: full("perceptron", "single"))),
        claim("– and than the group perceptron", lead(lambda r: full("group-perceptron", "single"))),
        claim("It depends significantly on the start (best less worst, above .01)", spread, least=.01),
        claim("The zero-padded identity is the best start at low rank, 10", ahead("identity"), [10]),
        claim("Zero is the best start at high rank, 150 and more; here 100", ahead("zero"), [100]),
    ]
    over = []
    for data in SETS:
        value, held = lab.chosen(data, loreta(100))
        over.append(f"{data} {short(held['map'])} at the best point, {short(held['last'])} at the last")
    fell = [lab.chosen(d, loreta(100))[1] for d in SETS]
    rows.append(["Models of higher rank overtrain at some point: stop early (held-out mAP, rank 100)", "; ".join(over),
                 verdict([f["map"] - f["last"] - .001 for f in fell])])
    note = ", ".join(f"{best_init(r)} at rank {r}" for r in RANKS)
    return table(["the paper", "here (test mAP)", ""], rows), note


def bars(lab):
    rows = []
    for data in SETS:
        rank, bar = REACH[data]
        plain = lab.map(data, loreta(rank))
        chosen = max(RANKS, key=lambda r: lab.chosen(data, BEST(r))[1]["map"])
        best = lab.map(data, BEST(chosen))
        gap = min(lab.map(data, loreta(r)) - lab.map(data, aggressive(r)) for r in RANKS)
        other = min(lab.map(data, loreta(r)) - lab.map(data, aggressive(r, " --gradient summed"))
                    for r in RANKS)
        rows.append([data, f"{short(plain)} at rank {rank} (bar {short(bar)})",
                     f"{signed(gap)} (bar +.050), {signed(other)} when it sums",
                     f"{short(best)} at rank {chosen} ({short(STRETCH[data])})"])
    head = ["data", "LORETA from zero, top wrong label, no bias",
            "least lead over passive-aggressive at a rank", "WARP, average, bias (ridge, logistic)"]
    return table(head, rows)


def page(lab):
    told, note = claims(lab)
    first = lab.test("delicious", loreta(50))
    return f"""# Ranking labels

Three multilabel data sets with their given train and test rows: corel5k (4,500 rows, 499 features,
374 labels), bibtex (4,880, 1,836, 159), delicious (12,920, 500, 983). `--weight tfidf --normalize l2`,
seed {SEED}. Test mAP: of each test row the average precision of its labels among all labels, ties
counted against them, rows without labels skipped ({first['skipped']} in delicious). This page is made by

```
python3 scripts/labels.py DATA --keep labels.json
```

**How settings were chosen.** For each method, rank and data set the step (or C) and the number of
passes are those with the best mAP on {HELD_OUT:.0%} of the *training* rows, held out with
`--valid-fraction {HELD_OUT} --patience {PATIENCE}`: {', '.join(f'{s:g}' for s in STEPS)} for LORETA,
{', '.join(f'{s:g}' for s in WARP_STEPS)} with WARP, {', '.join(f'{s:g}' for s in FULL_STEPS)} for the
perceptrons, C of {', '.join(f'{s:g}' for s in CAPS)}; {PASSES} passes at most, {WARP_PASSES} with WARP,
whose steps learn from one pair of labels. Then the method was trained on all training rows, as many
passes, and measured on the test rows. The sizes of bias and popularity (.01 and .2) and the start of WARP
were chosen before on the same held-out rows. No setting was chosen on test rows; but the grids of all but
WARP were made wider once, after the first results, because baselines stood at their edge.

## Where it stands

{bars(lab)}
The rank of the last column is the best on held-out rows. On corel5k, with 500 test rows, it is a tie with
ridge. The figures for ridge and logistic regression come from other programs; ridge had the best of three
penalties, picked on the test rows. With the summed gradient passive-aggressive learning is better on
bibtex, where LORETA's lead is then below the bar, and worse elsewhere; LORETA has the single one here.

## All learners

No biases, the best scoring wrong label; “single” counts it once, “summed” as often as right labels are
violated; single where nothing is said. Passive-aggressive learning starts from the identity.

{main_table(lab)}
## Beyond the paper

From the identity; `top` is the best scoring wrong label (single). Biases start from the popularity of
labels and move by .01 of the step.

{beyond_table(lab)}
## What the paper says

The paper ranks 1,660 labels of ImageNet, which these data only stand in for. “Confirmed” means in every
case that is listed, “partly” in some of them. One seed; gaps of .01 are small.

{told}
By the mean over the three data sets the best start is {note}.

## What was chosen

An asterisk marks a value at the edge of its grid. Seconds are those of the last training on all rows, on one core of a busy machine.

{chosen_table(lab)}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/rankfold")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(arguments.data, arguments.binary, Path(folder), arguments.keep)
        PAGE.write_text(page(lab).rstrip() + "\n")
    print(PAGE)


if __name__ == "__main__":
    main()
