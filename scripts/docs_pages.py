"""Gathers the pages of the documentation site.

    python3 scripts/docs_pages.py BINARY FOLDER

Guides are copied, pages of the project put beside them, and links between both made to fit. Every
command becomes a page of the reference, with the text of its `--help`.
"""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def helped(binary, words):
    done = subprocess.run([binary, *words, "--help"], capture_output=True, text=True, check=True,
                          env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"})
    return done.stdout


def commands(text):
    """The subcommands that a help lists."""
    inside, found = False, []
    for line in text.splitlines():
        if line == "Commands:":
            inside = True
        elif inside and not line.strip():
            break
        elif inside and (name := re.match(r"  ([a-z-]+)( |$)", line)) and name.group(1) != "help":
            found.append(name.group(1))
    return found


def reference(binary, folder):
    """A page for each command that has options of its own."""
    pages, queue = [], [[]]
    while queue:
        words = queue.pop(0)
        text = helped(binary, words)
        below = commands(text)
        queue += [words + [name] for name in below]
        if words and not below:
            name = " ".join(words)
            page = folder / f"{'-'.join(words)}.md"
            first = text.strip().splitlines()[0]
            page.write_text(f"# rankfold {name}\n\n{html.escape(first)}\n\n```text\n{text.rstrip()}\n```\n")
            pages.append((f"rankfold {name}", page.name))
    rows = "".join(f"- [{name}]({page})\n" for name, page in sorted(pages))
    whole = helped(binary, [])
    (folder / "index.md").write_text(f"# Commands\n\n{rows}\n```text\n{whole.rstrip()}\n```\n")
    return sorted(pages)


def fitted(text, source, target, root, pages):
    """The text with links that lead to where pages and files of the project are now."""
    def fit(match):
        address = match.group(2)
        if "://" in address or address.startswith(("#", "mailto:")):
            return match.group(0)
        path, mark, anchor = address.partition("#")
        place = (source.parent / path).resolve()
        try:
            inside = place.relative_to(root)
        except ValueError:
            return match.group(0)
        moved = pages.get(str(inside))
        if moved is None:
            # A file of the sources is no page.
            return "](#)"
        return f"]({os.path.relpath(moved, target.parent)}{mark}{anchor})"

    text = LINK.sub(fit, text)
    # What leads to a file that is not a page is text.
    return re.sub(r"\[([^\]]*)\]\(#\)", r"\1", text)


def main():
    binary, folder = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve()
    root = Path(__file__).resolve().parent.parent
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = {}
    for path in sorted((root / "docs").rglob("*")):
        if path.is_file():
            pages[str(path.relative_to(root))] = folder / path.relative_to(root / "docs")
    for name in PROJECT:
        pages[name] = folder / "project" / name
    pages["README.md"] = folder / "index.md"
    for name, target in pages.items():
        source = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(fitted(source.read_text(), source, target, root, pages))
        else:
            shutil.copyfile(source, target)
    (folder / "reference").mkdir()
    found = reference(binary, folder / "reference")
    config = root / "mkdocs.yml"
    listed = "".join(f"      - {name}: reference/{page}\n" for name, page in found)
    text = config.read_text().replace("  - Reference: reference\n",
                                      f"  - Reference:\n      - Commands: reference/index.md\n{listed}")
    text = text.replace("docs_dir: target/docs/pages", f"docs_dir: {folder}")
    text = text.replace("site_dir: target/docs/site", f"site_dir: {folder.parent / 'site'}")
    (folder.parent / "mkdocs.yml").write_text(text)


main()
