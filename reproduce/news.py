"""20 Newsgroups as the papers use it: terms by information gain, tf-idf, random splits and the one by date."""

import json

from reproduce.lab import mean

METRICS = ("map", "precision_at_1", "precision_at_10")
# Numbers of first documents whose precision is drawn.
AT = (1, 2, 5, 10, 20, 50, 100, 200, 300)
BY_DATE = "date"


def documents(bench, split):
    """The two parts: files, and which of their documents."""
    source = bench.data / "20newsgroups" / "20news-bydate.jsonl.gz"
    if split == BY_DATE:
        return [(source, ["--where", f"split={part}"]) for part in ("train", "test")]
    prefix = bench.lab.folder / f"news-{split}"
    parts = [prefix.with_name(f"{prefix.name}.{part}.jsonl.gz") for part in ("train", "test")]
    if not parts[1].exists():
        bench.lab.rankfold("split", source, "-o", prefix, "--test", 0.35, "--seed", split)
    return [(part, []) for part in parts]


def rows(bench, terms, split):
    """Rows to learn from and rows to test on."""
    name = bench.lab.folder / f"news-{terms or 'all'}-{split}"
    files = [name.with_name(f"{name.name}.{part}.svm") for part in ("train", "test")]
    if not files[1].exists():
        vocabulary = name.with_suffix(".json")
        learn = ["--fit", vocabulary, "--tf", "raw", *(["--features", terms] if terms else [])]
        for file, (source, where), how in zip(files, documents(bench, split), (learn, ["--vocabulary", vocabulary])):
            bench.lab.rankfold("vectorize", source, "-o", file, *where, *how)
    return files


def similarity(bench, terms, split, steps, options, seed=1):
    """Metrics of a model, by the dot product; with the CPU seconds of its training."""
    command = f"train similarity news-{terms or 'all'}-{split} --steps {steps} --seed {seed} {options}"

    def work():
        train, test = rows(bench, terms, split)
        model = bench.lab.folder / "model.safetensors"
        told, cpu = bench.lab.rankfold("train", "similarity", train, "-o", model, "--steps", steps, "--seed", seed,
                                       *options.split())
        found, _ = bench.lab.rankfold("eval", model, test, "--score", "dot", "--precision-at", ",".join(map(str, AT)))
        return {**{name: found["metrics"][name] for name in METRICS},
                "at": [found["metrics"][f"precision_at_{k}"] for k in AT], "cosine": found["baseline"]["metrics"]["map"],
                "cpu": cpu, "step_size": told["step_size"], "refused": told["refused"]}

    return bench.once(command, work)


def best_setting(bench, terms, steps, settings):
    """The setting with the best mAP on a fifth of the training rows of the first split."""
    def judged(options):
        command = f"validate similarity news-{terms or 'all'}-0 --steps {steps} {options}"

        def work():
            train, _ = rows(bench, terms, 0)
            folder = bench.lab.folder
            bench.lab.rankfold("train", "similarity", train, "-o", folder / "m", "--steps", steps, "--seed", 1,
                               "--valid-fraction", 0.2, "--curve", folder / "curve.jsonl", "--curve-every", steps,
                               *options.split())
            return {"map": json.loads((folder / "curve.jsonl").read_text().splitlines()[-1])["map"]}

        return bench.once(command, work)["map"]

    return max(settings, key=judged) if len(settings) > 1 else settings[0]


def gap(ours, theirs):
    """The mean lead of a list of figures."""
    return mean([a - b for a, b in zip(ours, theirs)])
