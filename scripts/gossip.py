#!/usr/bin/env python3
"""Agents that gossip: pictures and tables for docs/results/gossip.md.

    python3 scripts/gossip.py cases --keep FOLDER       curves of the planted problems
    python3 scripts/gossip.py movielens --data DATA     ratings, against batch
    python3 scripts/gossip.py tasks --data DATA         School and Parkinsons, against batch

`cases` runs the release build of the example `gossip_cases` at the sizes of Mishra and
others (2019), keeps the curves in FOLDER as JSON lines, and draws
docs/results/gossip-caseN.svg. What is in FOLDER already is not run again. `movielens`
and `tasks` use the release binary and print tables. DATA is $RANKFOLD_DATA or
../shared/data.
"""

import argparse
import csv
import gzip
import json
import math
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
EXAMPLE = RELEASE / "examples/gossip_cases"
BINARY = RELEASE / "rankfold"
RESULTS = ROOT / "docs/results"

COLORS = ["#1b6ca8", "#d1495b", "#2e8b57", "#8d6a9f", "#c98a1b", "#444444"]
TITLES = {
    "1": "10,000 × 100,000, rank 5, ρ = 10³",
    "2": "10,000 × 100,000, rank 5, ρ = 10¹⁰: consensus",
    "3": "5,000 × 50,000, rank 5, condition number 500, ρ = 10³",
    "4": "500 × 12,000, rank 5, ρ = 10³",
    "6": "1,000 tasks with 100 features, rank 5, ρ = 10³",
}

# Case, name, and how it is run. Sizes of given steps are the best of `gossip_cases grid` for plain
# steps in case 1, 4 and 6 and for scaled ones in case 4 and 6; else the best of the few that the page
# names.
PLAN = [
    ("1", "own, stochastic", "own stochastic 120"),
    ("1", "own, parallel", "own parallel 50"),
    ("1", "plain, stochastic", "plain stochastic 120 1.37945e-5 0.1"),
    ("1", "scaled, stochastic", "scaled stochastic 120 1000 0.03"),
    ("2", "own, stochastic", "own stochastic 120"),
    ("3", "own, stochastic", "own stochastic 120"),
    ("3", "own, parallel", "own parallel 50"),
    ("3", "plain, stochastic", "plain stochastic 120 6e-6 0.01"),
    ("3", "scaled, stochastic", "scaled stochastic 120 400 0.03"),
    ("4", "own, stochastic", "own stochastic 120"),
    ("4", "own, parallel", "own parallel 50"),
    ("4", "plain, stochastic", "plain stochastic 120 1.16029e-4 0.1"),
    ("4", "plain, parallel", "plain parallel 60 1.16029e-4 0.1"),
    ("4", "scaled, stochastic", "scaled stochastic 120 32 0.03"),
    ("4", "euclidean, stochastic", "euclidean stochastic 120 1.16029e-4 0.03"),
    ("6", "own, stochastic", "own stochastic 150"),
    ("6", "own, parallel", "own parallel 60"),
    ("6", "plain, stochastic", "plain stochastic 150 9.373018e-4 0.1"),
    ("6", "scaled, stochastic", "scaled stochastic 150 0.5 0.03"),
    ("6", "euclidean, stochastic", "euclidean stochastic 150 4.68651e-4 0.03"),
]


def read_curve(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def run_case(folder, name, arguments):
    """The curve of a run, which is made once."""
    path = folder / f"{name}.jsonl"
    if not path.exists():
        out = subprocess.run([str(EXAMPLE), "run", *arguments], capture_output=True, text=True)
        if out.returncode:
            raise SystemExit(f"{name}: {out.stderr}")
        path.write_text(out.stdout)
    return read_curve(path)


def decades(values):
    values = [v for v in values if v and v > 0 and math.isfinite(v)]
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def panel(curves, key, label, left, width=380, height=250):
    """One plot over slots, with powers of ten upwards."""
    top, low_margin = 40, 45
    all_values = [max(p[key] or 1e-16, 1e-16) for c in curves.values() for p in c if p["slot"] > 0]
    low, high = decades(all_values)
    low = max(low, -14)
    most = max(c[-1]["slot"] for c in curves.values())

    def x(slot):
        return left + 55 + slot / most * (width - 70)

    def y(value):
        value = min(max(value, 10.0**low), 10.0**high)
        share = (math.log10(value) - low) / max(high - low, 1)
        return top + (1 - share) * (height - low_margin)

    out = []
    for power in range(low, high + 1, max(1, (high - low) // 7)):
        at = y(10.0**power)
        out.append(f'<line x1="{x(0):.0f}" x2="{x(most):.0f}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{x(0) - 6:.0f}" y="{at + 4:.1f}" text-anchor="end">1e{power}</text>')
    for share in range(0, 5):
        slot = most * share / 4
        out.append(f'<text x="{x(slot):.0f}" y="{top + height - low_margin + 18}" text-anchor="middle">{slot:.0f}</text>')
    out.append(f'<text x="{x(most / 2):.0f}" y="{top + height - low_margin + 36}" text-anchor="middle">slots</text>')
    out.append(f'<text x="{x(0):.0f}" y="{top - 10}" font-weight="bold">{label}</text>')
    for color, curve in zip(COLORS, curves.values()):
        points = [p for p in curve if p["slot"] > 0 or key == "error"]
        step = max(1, len(points) // 300)
        kept = points[::step] + ([points[-1]] if points else [])
        path = " ".join(f"{x(p['slot']):.1f},{y(max(p[key] or 1e-16, 1e-16)):.1f}" for p in kept)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>')
    return out


def draw(case, curves):
    """Error on new entries and consensus, side by side."""
    keys = ["consensus"] if case == "2" else ["error", "consensus"]
    labels = {"error": "relative error on new entries", "consensus": "largest distance between neighbors"}
    width = 400 * len(keys) + 20
    height = 320 + 18 * len(curves)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">']
    out.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for i, key in enumerate(keys):
        out += panel(curves, key, labels[key], 400 * i)
    out.append(f'<text x="20" y="16" font-size="13">Case {case}: {TITLES[case]}</text>')
    for i, (color, name) in enumerate(zip(COLORS, curves)):
        at = 305 + 18 * i
        out.append(f'<line x1="60" x2="90" y1="{at}" y2="{at}" stroke="{color}" stroke-width="2"/>')
        out.append(f'<text x="98" y="{at + 4}">{name}</text>')
    out.append("</svg>")
    (RESULTS / f"gossip-case{case}.svg").write_text("\n".join(out) + "\n")


def reached(curve, level=1e-3):
    return next((p["slot"] for p in curve if p["error"] is not None and p["error"] < level), None)


def cases(folder):
    folder.mkdir(exist_ok=True)
    found = {}
    for case, name, arguments in PLAN:
        curve = run_case(folder, f"case{case} {name}", [case, *arguments.split()])
        found.setdefault(case, {})[name] = curve
    for case, curves in sorted(found.items()):
        draw(case, curves)
        print(f"case {case}")
        for name, curve in curves.items():
            last = curve[-1]
            print(
                f"  {name:<24} slots to 1e-3: {reached(curve) or '–':>4}   slot {last['slot']:>3}: "
                f"error {last['error']:.1e}, consensus {last['consensus']:.1e}"
            )


def command(*arguments):
    command = [str(BINARY), *map(str, arguments), "--json", "--quiet"]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(f"{' '.join(command)}\n{out.stderr}")
    return json.loads(out.stdout)


def tasks(data, seeds):
    """School and Parkinsons by six agents and in batch, with the same options."""
    sets = [
        ("school/school.csv.gz", ["--task-column", "task", "--target-column", "y"]),
        (
            "parkinsons/parkinsons_updrs.csv.gz",
            ["--task-column", "subject#", "--target-column", "total_UPDRS", "--ignore-column", "motor_UPDRS"],
        ),
    ]
    plain = ["--standardize", "none", "--no-bias", "--no-common", "--regularization", "0.1"]
    with tempfile.TemporaryDirectory() as folder:
        for path, columns in sets:
            rows = []
            for seed in range(seeds):
                prefix = Path(folder) / "part"
                command("split", data / path, "-o", prefix, "--test", "0.2", "--by", columns[1], "--seed", seed)
                train, test = [next(Path(folder).glob(f"part.{side}.*")) for side in ("train", "test")]
                for name, options in (("default", []), ("plain", plain)):
                    for rank in (3, 5):
                        model = Path(folder) / "m.safetensors"
                        figures = []
                        for run in (
                            ["train", "multitask", train],
                            ["gossip", "run", "multitask", train, "--agents", 6, "--mean-only"],
                        ):
                            command(*run, "-o", model, "--rank", rank, *columns, *options)
                            said = command("eval", model, test, "--train", train)
                            figures.append(said["metrics"]["nmse"])
                        rows.append((name, rank, *figures))
                for side in Path(folder).glob("part.*"):
                    side.unlink()
            print(path)
            for name, rank in sorted({row[:2] for row in rows}):
                found = [row[2:] for row in rows if row[:2] == (name, rank)]
                batch, gossip = [sum(column) / len(found) for column in zip(*found)]
                print(f"  {name:<8} rank {rank}: batch {batch:.4f}, six agents {gossip:.4f}, {len(found)} splits")


def centered(path, out, mean=None):
    """Ratings around their mean, or around that of others."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        rows = [(row["user"], row["item"], float(row["rating"])) for row in csv.DictReader(file)]
    mean = sum(row[2] for row in rows) / len(rows) if mean is None else mean
    with out.open("w") as file:
        file.write("user,item,rating\n")
        file.writelines(f"{user},{item},{rating - mean:.6f}\n" for user, item, rating in rows)
    return mean


def movielens(data, seeds):
    """MovieLens 1M by 2, 5 and 10 agents, and in batch: the same cost with the same λ, which
    batch chooses by validation. Ratings are centered before, so that neither has a mean."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = folder / "m.safetensors"
        for seed in range(seeds):
            source = data / "movielens/ml-1m.csv.gz"
            command("split", source, "-o", folder / "part", "--test", "0.2", "--by", "user", "--seed", seed)
            parts = [next(folder.glob(f"part.{side}.*")) for side in ("train", "test")]
            train, test = folder / "train.csv", folder / "test.csv"
            mean = centered(parts[0], train)
            centered(parts[1], test, mean)
            clip = ["--clip", f"{1 - mean:.6f},{5 - mean:.6f}"]
            for rank in (3, 5, 7, 9):
                said = command(
                    "train", "completion", train, "-o", model, "--learner", "grassmann", "--no-bias", "--rank", rank, *clip
                )
                penalty = said["regularization"]
                batch = command("eval", model, test)["metrics"]["rmse"]
                line = [f"seed {seed} rank {rank} λ {penalty:g}: batch {batch:.4f} ({said['seconds']:.0f} s)"]
                for agents in (2, 5, 10):
                    said = command(
                        "gossip", "run", "completion", train, "--agents", agents, "--rank", rank, "-o", model,
                        "--mean-only", "--center", 0, "--regularization", penalty, *clip,
                    )
                    rmse = command("eval", model, test)["metrics"]["rmse"]
                    line.append(f"N={agents} {rmse:.4f} ({rmse - batch:+.4f}, {said['seconds']:.0f} s)")
                print("  ".join(line), flush=True)
            for side in parts:
                side.unlink()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["cases", "movielens", "tasks"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RANKFOLD_DATA", ROOT / "../shared/data")))
    parser.add_argument("--keep", type=Path, default=Path("gossip-curves"))
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    if asked.what == "cases":
        cases(asked.keep)
    elif asked.what == "tasks":
        tasks(asked.data, asked.seeds)
    else:
        movielens(asked.data, asked.seeds)


if __name__ == "__main__":
    main()
