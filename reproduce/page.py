"""Pages of results: Markdown and figures of a paper, and one page of all that opens offline."""

import html
import re

from reproduce.earlier import EARLIER
from reproduce.items import NOT_RUN, known
from reproduce.lab import ROOT, table

DOCS = ROOT / "docs" / "results"

STYLE = """
body { font: 15px/1.45 sans-serif; max-width: 76em; margin: 1.5em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .8em 0; font-size: 14px }
th, td { border: 1px solid #ccc; padding: .3em .55em; vertical-align: top; text-align: left }
th { background: #f2f2f2 } code { font-size: 12.5px; background: #f6f6f6 }
.confirmed { background: #dff3df } .partly { background: #fdf3d0 } .not-confirmed { background: #f9dcdc }
.cannot-be-run, .not-run-yet { background: #eee } .small { color: #666; font-size: 13px }
@media (max-width: 700px) { .items tr:first-child { display: none } .items, .items tr, .items td { display: block; border: 0 }
  .items tr { border: 1px solid #ccc; margin: .6em 0 } .items td::before { content: attr(data-name) ": "; color: #666; font-size: 13px } }
svg { max-width: 100%; height: auto } .wide { overflow-x: auto } td code { white-space: normal; overflow-wrap: anywhere }
"""


def decided(found):
    """Whether enough was run for a verdict: not by a cut version, nor by one seed of several."""
    return not found.quick and (not found.rounds or found.rounds[0] > 1 or found.rounds[1] <= 1)


def kind(found):
    return found.verdict if decided(found) else NOT_RUN


def verdict(found):
    """The verdict in words."""
    ran, all_of_them = found.rounds or (0, 0)
    part = f"{ran} of {all_of_them} rounds" if ran < all_of_them else ""
    if found.quick:
        return f"{NOT_RUN} (quick run: {found.verdict})"
    if not decided(found):
        return f"{NOT_RUN} ({part}: {found.verdict})"
    return ", ".join(filter(None, [found.verdict, part, "sources changed since" if found.stale else ""]))


def here(paper, item, found):
    """What an item came to; where it has not run, what earlier builds did."""
    said = found.ours
    before = EARLIER.get((paper.name, item.name))
    if before and not decided(found) or before and found.verdict == NOT_RUN:
        said = " · ".join(filter(None, [said, f"**an earlier build, another protocol**: {before}"]))
    return said


def built(found):
    return f"build {', '.join(found.builds)}, {found.cpu / 60:.1f} CPU min" if found.builds else ""


def budget(item):
    return f"{item.minutes:g} CPU min, quick {item.quick:g}" if item.minutes else ""


def write_paper(paper, outcomes):
    """The tables of a paper as Markdown, and its figures."""
    folder = DOCS / paper.name
    folder.mkdir(parents=True, exist_ok=True)
    parts = [f"# {paper.title}", f"{paper.authors}. Made by `scripts/reproduce {paper.name}`.", "## Summary",
             table(["place", "the paper", "here", "verdict"],
                   [[item.place, item.says, here(paper, item, found) or "–", verdict(found)]
                    for item, found in zip(paper.items, outcomes)])]
    drawn = {f"{chart.name}.svg" for found in outcomes for chart in found.figures}
    for old in folder.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    for item, found in zip(paper.items, outcomes):
        if not (found.tables or found.figures):
            continue
        parts.append(f"## {item.place}: `scripts/reproduce {paper.name} {item.name}`")
        parts.append(f"{built(found)}. Budget: {budget(item)}. `{item.command}`")
        for title, head, lines in found.tables:
            parts += [title, table(head, lines)]
        for chart in found.figures:
            (folder / f"{chart.name}.svg").write_text(chart.svg())
            parts.append(f"![{chart.title}]({chart.name}.svg)")
    (folder / "README.md").write_text("\n\n".join(parts) + "\n")


def cell(text):
    """Markdown of a cell as HTML: code and bold only."""
    text = html.escape(str(text))
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*([^*]*)\*\*", r"<b>\1</b>", text)


def rows(head, lines):
    out = ['<div class="wide"><table><tr>' + "".join(f"<th>{cell(name)}</th>" for name in head) + "</tr>"]
    out += ["<tr>" + "".join(f"<td>{cell(value)}</td>" for value in line) + "</tr>" for line in lines]
    return "\n".join([*out, "</table></div>"])


def section(paper, outcomes):
    out = [f'<h2 id="{paper.name}">{html.escape(paper.title)}</h2>', f"<p>{html.escape(paper.authors)}</p>"]
    out.append('<div class="wide"><table class="items"><tr><th>place</th><th>the paper</th><th>here</th><th>verdict</th><th>command</th></tr>')
    for item, found in zip(paper.items, outcomes):
        notes = " · ".join(filter(None, [built(found), f"budget {budget(item)}" if item.minutes else ""]))
        command = f"scripts/reproduce {paper.name} {item.name}" if item.run else ""
        out.append(
            f'<tr><td data-name="place">{cell(item.place)}</td><td data-name="the paper">{cell(item.says)}</td>'
            f'<td data-name="here">{cell(here(paper, item, found))}</td><td data-name="verdict" class="{kind(found).replace(" ", "-")}">{cell(verdict(found))}</td>'
            f'<td data-name="command"><code>{html.escape(command)}</code><br><code>{html.escape(item.command)}</code>'
            f'<div class="small">{html.escape(notes)}</div></td></tr>')
    out.append("</table></div>")
    for item, found in zip(paper.items, outcomes):
        for title, head, lines in found.tables:
            out += [f"<h3>{cell(item.place)}: {cell(title)}</h3>", rows(head, lines)]
        for chart in found.figures:
            svg = chart.svg()
            out += [f"<h3>{cell(item.place)}</h3>", svg[svg.index("<svg"):]]
    out.append("<h3>Algorithms and options</h3>")
    out.append(rows(["place", "what", "where it is here"],
                    [[a.place, a.what, a.where or "missing"] for a in paper.algorithms]))
    return "\n".join(out)


def write(papers, data):
    """All pages, from what is known."""
    sections, counts, spent = [], {}, 0.0
    planned = sum(item.minutes for paper in papers for item in paper.items)
    for paper in papers:
        outcomes = [known(paper, item, data) for item in paper.items]
        for found in outcomes:
            spent += 0 if found.quick else found.cpu
            counts[kind(found)] = counts.get(kind(found), 0) + 1
        write_paper(paper, outcomes)
        sections.append(section(paper, outcomes))
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    links = " · ".join(f'<a href="#{paper.name}">{html.escape(paper.title)}</a>' for paper in papers)
    text = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>rankfold: the five papers</title><style>{STYLE}</style></head>
<body><h1>The five papers, by <code>scripts/reproduce</code></h1>
<p>Each table, figure and testable claim in the order of the paper: what the paper prints, what this program comes to (mean
and standard error over seeds or splits), the verdict and the command. A quick run is a cut version that shows that an item
runs; it decides nothing. A round is a seed, a split or a data set; where fewer ran than the item has, the verdict says how many,
and one of several decides nothing. Where an item has not run, figures of earlier builds stand in bold letters as what they are; they
decide nothing either. Misprints are in <a href="../errata.md">errata.md</a>, data sets that stand in for others in
<a href="../substitutions.md">substitutions.md</a>.</p>
<p>{html.escape(said)}. The budgets of all items add up to {planned / 60:.0f} CPU hours, those of <code>--quick</code> to
{sum(item.quick for paper in papers for item in paper.items):.0f} CPU minutes; what stands here took {spent / 3600:.1f} CPU hours.</p><p>{links}</p>
{chr(10).join(sections)}
</body></html>
"""
    (DOCS / "reproduction.html").write_text(text)
