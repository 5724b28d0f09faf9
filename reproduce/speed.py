"""Runs the benches of the library, and keeps what they print."""

import hashlib
import json
import subprocess
import sys

from reproduce.lab import ROOT, bare, commit, spent, table

BENCHES = ROOT / "crates" / "rankfold" / "benches"
KEEP = ROOT / "reproduce" / "results" / "speed.json"
PAGE = ROOT / "docs" / "results" / "speed.md"
# A smaller run that shows that a bench works.
QUICK = ("tasks",)


def names():
    return sorted(path.stem for path in BENCHES.iterdir())


def about(name):
    """The first sentence of a bench."""
    path = BENCHES / f"{name}.rs"
    text = (path if path.exists() else BENCHES / name / "main.rs").read_text()
    said = " ".join(line[3:].strip() for line in text.split("\n\n")[0].splitlines() if line.startswith("//!"))
    return said.split(". ")[0].rstrip(".") + "."


def fingerprint(name):
    """A hash of the library and of the bench."""
    digest = hashlib.sha256()
    own = [path for path in BENCHES.rglob("*.rs") if path.stem == name or path.parent.name == name]
    for path in [*sorted((ROOT / "crates" / "rankfold" / "src").rglob("*.rs")), *sorted(own), ROOT / "Cargo.lock"]:
        digest.update(bare(path.read_text()).encode())
    return digest.hexdigest()[:12]


def processor():
    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{models[0] if models else 'an unknown processor'}, {len(models)} threads"


def run(name):
    before = spent()
    made = subprocess.run(["cargo", "bench", "--workspace", "--bench", name], cwd=ROOT, capture_output=True, text=True)
    if made.returncode:
        raise RuntimeError(f"{name}\n{made.stderr[-2000:]}")
    return {"sources": fingerprint(name), "build": commit(), "cpu": round(spent() - before, 1), "processor": processor(), "text": made.stdout.strip()}


def write(kept):
    parts = ["# Benches", "Made by `scripts/reproduce speed [BENCH ...]`. The pages beside this one say what the figures mean; they "
             "were taken on a machine without other work, which this page cannot know."]
    lines = [[f"`{name}`", about(name), kept[name]["build"] if name in kept else "not run yet",
              "yes" if name in kept and kept[name]["sources"] == fingerprint(name) else "–"] for name in names()]
    parts.append(table(["bench", "what it times", "build", "of the present sources"], lines))
    for name in names():
        if name in kept:
            parts += [f"## {name}", f"{kept[name]['processor']}; {kept[name]['cpu'] / 60:.1f} CPU minutes, with the build.", f"```\n{kept[name]['text']}\n```"]
    PAGE.write_text("\n\n".join(parts) + "\n")


def main(action, quick, *asked):
    unknown = [name for name in asked if name not in names()]
    if unknown:
        sys.exit(f"no bench `{unknown[0]}`; there are: {', '.join(names())}")
    if action == "list":
        for name in names():
            print(f"{name:<12} {about(name)}")
        return
    kept = json.loads(KEEP.read_text()) if KEEP.exists() else {}
    for name in (asked or (QUICK if quick == "1" else names())) if action == "run" else ():
        if name in kept and kept[name]["sources"] == fingerprint(name):
            continue
        print(f"  {name}", file=sys.stderr, flush=True)
        kept[name] = run(name)
        KEEP.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    write(kept)
    print(f"wrote {PAGE}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
