#!/usr/bin/env python3
"""20 Newsgroups from raw text to the table of docs/results/newsgroups.md.

    python3 scripts/newsgroups.py 20news-bydate.jsonl.gz > docs/results/newsgroups.md

Runs the commands of the user guide with the release binary: vocabulary and
rows, training at ranks 10, 30 and 100, evaluation by dot product and by
projected cosine. With --steps it also trains with every step size of the grid
and says what the automatic choice costs.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/rankfold"
GRID = [0.1, 0.3, 1, 3, 10, 30, 100]
# Rank and number of terms of equal memory, as in the LORETA paper.
SIZES = [(10, None), (30, 16660), (100, 5000)]


def run(*arguments):
    command = [str(BINARY), *map(str, arguments), "--json"]
    out = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def vectorize(source, folder, features, tf):
    name = f"{features or 'all'}.{tf}"
    vocabulary = folder / f"{name}.json"
    parts = {}
    for part in ("train", "test"):
        parts[part] = folder / f"{name}.{part}.svm"
        learn = ["--fit", vocabulary, "--tf", tf]
        learn += ["--features", features] if features else []
        apply = ["--vocabulary", vocabulary]
        run("vectorize", source, "-o", parts[part], "--where", f"split={part}",
            *(learn if part == "train" else apply))
    return parts


def train_and_eval(parts, folder, learner, rank, steps, seed, step_size=None):
    model = folder / "model.safetensors"
    extra = ["--step-size", step_size] if step_size else []
    trained = run("train", "similarity", parts["train"], "-o", model, "--learner", learner,
                  "--rank", rank, "--steps", steps, "--seed", seed, *extra)
    found = {score: run("eval", model, parts["test"], "--score", score)
             for score in ("dot", "cosine")}
    return trained, found


def figures(metrics):
    return "/".join(f"{metrics[m]:.3f}".lstrip("0")
                    for m in ("map", "precision_at_1", "precision_at_10"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", action="store_true", help="also try every step size")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report(options, Path(name))


def report(options, folder):
    print("# 20 Newsgroups, by date\n")
    print("Made by `python3 scripts/newsgroups.py 20news-bydate.jsonl.gz"
          + (" --steps" if options.steps else "") + f"`, seed {options.seed}. Train half",
          "11,314 messages with headers, test half 7,532; every test message is a query",
          "against all others; mAP / precision@1 / precision@10.\n")
    start = time.time()
    data = {}
    for features in {1000, *(terms for _, terms in SIZES)}:
        for tf in ("raw", "log"):
            data[features, tf] = vectorize(options.source, folder, features, tf)
    vectorizing = (time.time() - start) / len(data)

    print("| rows | learner | rank | triplets | step | dot | projected cosine | train s | eval s |")
    print("|---|---|---|---|---|---|---|---|---|")
    controls = {}
    for tf in ("raw", "log"):
        for rank, terms in SIZES:
            for learner in ("loreta-psd", "loreta"):
                for steps in (100_000, 500_000):
                    parts = data[terms, tf]
                    trained, found = train_and_eval(parts, folder, learner, rank, steps, options.seed)
                    controls[terms, tf] = found["dot"]["control"]["metrics"]
                    print(f"| {terms or 'all'} terms, {tf} tf | {learner} | {rank} | {steps // 1000}K |"
                          f" {trained['step_size']:g} | {figures(found['dot']['metrics'])} |"
                          f" {figures(found['cosine']['metrics'])} | {trained['seconds']:.1f} |"
                          f" {found['cosine']['seconds']:.1f} |", flush=True)
    parts = data[1000, "raw"]
    controls[1000, "raw"] = train_and_eval(parts, folder, "loreta-psd", 10, 1000, 0, 1)[1]["dot"]["control"]["metrics"]
    print("\nThe control, cosine between the rows themselves:\n")
    print("| rows | cosine |\n|---|---|")
    for (terms, tf), metrics in sorted(controls.items(), key=str):
        print(f"| {terms or 'all'} terms, {tf} tf | {figures(metrics)} |")
    print(f"\nVectorizing one half takes {vectorizing / 2:.1f} s.")

    if options.steps:
        print("\n## What the automatic step size costs\n")
        print("mAP by dot product at 500K triplets, raw tf, for every step of the grid; the step that",
              "was chosen in bold.\n")
        print("| learner | rank | " + " | ".join(f"{s:g}" for s in GRID) + " | cost |")
        print("|" + "---|" * (len(GRID) + 3))
        for rank, terms in SIZES:
            for learner in ("loreta-psd", "loreta"):
                parts = data[terms, "raw"]
                chosen = train_and_eval(parts, folder, learner, rank, 500_000, options.seed)[0]["step_size"]
                maps = {s: train_and_eval(parts, folder, learner, rank, 500_000, options.seed, s)[1]["dot"]["metrics"]["map"]
                        for s in GRID}
                cells = [f"**{maps[s]:.3f}**" if s == chosen else f"{maps[s]:.3f}" for s in GRID]
                print(f"| {learner} | {rank} | " + " | ".join(cells)
                      + f" | {max(maps.values()) - maps[chosen]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
