"""A report as one self-contained page: pictures, sortable tables, facts.

The page needs no network and no other file. It follows the reader's choice of light or dark,
fits a phone, and prints without its navigation.
"""

from __future__ import annotations

import base64
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from qops_batsim.version import __version__

MARKED = {
    "confirmed": "good",
    "not confirmed": "bad",
    "inconclusive": "open",
    "not judged": "open",
}
"""Words that stand out where a cell consists of nothing else."""


class PageText(msgspec.Struct, frozen=True, kw_only=True):
    """Paragraphs of plain text."""

    paragraphs: Sequence[str]


class PageTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table, which can be saved as CSV; a click on a heading sorts its rows."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class PagePicture(msgspec.Struct, frozen=True, kw_only=True):
    """A picture in SVG, which can be saved as that or as PNG, and its ``data`` (CSV), if any."""

    title: str
    svg: bytes
    data: str = ""


class PageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Names and what is to be said of each."""

    facts: Mapping[str, str]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a page with a heading of its own; one without content is left out."""

    title: str
    content: Sequence[Block]


Block = PageText | PageTable | PagePicture | PageFacts


def made_by(command: str, **facts: str) -> Section:
    """Return the section that says how a report was made, with the versions that made it."""
    versions = {
        "qops-batsim": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba")},
    }
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    return Section(
        title="How it was made",
        content=[PageFacts(facts={"command": command, **facts, "versions": told})],
    )


def pictures_of(draw: Callable[[Path], Mapping[Path, str]]) -> list[PagePicture]:
    """Return the pictures that a function draws (SVG) into a directory, with their titles."""
    with TemporaryDirectory() as directory:
        return [
            PagePicture(title=title, svg=file.read_bytes())
            for file, title in draw(Path(directory)).items()
        ]


def html_page(title: str, about: str, sections: Sequence[Section]) -> str:
    """Return a page as HTML; equal content gives equal text."""
    shown = [(f"part-{i}", each) for i, each in enumerate(sections, 1) if each.content]
    links = "".join(f'<a href="#{name}">{escape(each.title)}</a>' for name, each in shown)
    parts = "\n".join(
        f'<section id="{name}"><h2>{escape(each.title)}</h2>\n'
        + "\n".join(map(_block, each.content))
        + "\n</section>"
        for name, each in shown
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1><p>{escape(about)}</p></header>\n"
        f"<nav>{links}</nav>\n<main>\n{parts}\n</main>\n<script>{_SCRIPT}</script>\n"
        "</body></html>\n"
    )


def _block(block: Block) -> str:
    if isinstance(block, PageTable):
        return _table(block)
    if isinstance(block, PagePicture):
        return _figure(block)
    if isinstance(block, PageText):
        return "\n".join(f"<p>{escape(each)}</p>" for each in block.paragraphs)
    rows = (f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>" for name, fact in block.facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def _figure(picture: PagePicture) -> str:
    content, title = base64.b64encode(picture.svg).decode(), escape(picture.title)
    data = ""
    if picture.data:
        rows = base64.b64encode(picture.data.encode()).decode()
        name = escape(file_name(picture.title))
        data = f' <a download="{name}.csv" href="data:text/csv;base64,{rows}">CSV</a>'
    return (
        f'<figure><img src="data:image/svg+xml;base64,{content}" alt="{title}">'
        f"<figcaption>{title}{_SAVE.format('SVG')}{_SAVE.format('PNG')}{data}</figcaption></figure>"
    )


def file_name(title: str) -> str:
    """Return a name for what has a title on a page; the page's script makes the same."""
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")


_SAVE = ' <button type="button" class="save">{}</button>'


def _table(table: PageTable) -> str:
    head = "".join(
        f'<th scope="col"><button type="button">{escape(each)}</button></th>'
        for each in table.headings
    )
    # Of the first column, which names rows, all cells are aligned the same way.
    named = not all(row and _is_number(row[0]) for row in table.rows)
    rows = "\n".join(
        f"<tr>{''.join(_cell(text, named and at == 0) for at, text in enumerate(row))}</tr>"
        for row in table.rows
    )
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return (
        f"<h3>{escape(table.title)}{_SAVE.format('CSV')}</h3>{note}\n"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _is_number(text: str) -> bool:
    # A sentence may begin with a number, too; "-" stands for a number that is not known.
    return text == "-" or (len(text) <= 40 and text.lstrip("+-")[:1].isdigit())


def _cell(text: str, is_name: bool) -> str:
    if text in MARKED:
        return f'<td><span class="{MARKED[text]}">{escape(text)}</span></td>'
    kind = ' class="number"' if _is_number(text) and not is_name else ""
    return f"<td{kind}>{escape(text)}</td>"


_STYLE = """
:root { color-scheme: light dark; --ink: #1d2327; --paper: #fff; --soft: #f3f5f6; --line: #d5dade;
  --link: #005a9c; --good: #00704d; --bad: #b3410e; --open: #6b5900; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9eb; --paper: #15191c; --soft: #20262a;
  --line: #3a4247; --link: #7cc0f5; --good: #5fd3a5; --bad: #ff9d6b; --open: #e3c95c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
header, main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { line-height: 1.2; margin-bottom: .3rem; } h2 { margin-top: 2.5rem; } h3 { margin: 2rem 0 0; }
a { color: var(--link); }
nav { position: sticky; top: 0; background: var(--soft); border-block: 1px solid var(--line);
  padding: .4rem max(1rem, calc(50% - 35rem)); overflow-x: auto; white-space: nowrap; }
nav a { margin-right: 1.2rem; }
section { scroll-margin-top: 3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left;
  vertical-align: top; }
@media (min-width: 60rem) { nav { white-space: normal; } nav a { display: inline-block; } }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
.good, .bad, .open { font-weight: 600; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); }
figure { margin: 1.5rem 0; }
img { max-width: 100%; height: auto; background: #fff; border-radius: .4rem; }
figcaption { font-size: .9rem; }
.save, figcaption a { all: unset; cursor: pointer; color: var(--link); font-size: .8rem;
  font-weight: 400; margin-left: .5rem; text-decoration: underline; }
.save:focus-visible, figcaption a:focus-visible { outline: 2px solid var(--link); }
dt { font-weight: 600; } dd { margin: 0 0 .6rem; overflow-wrap: anywhere; }
@media print { nav, .save, figcaption a { display: none; } figure, tr { break-inside: avoid; }
  :root { --ink: #000; --paper: #fff; } .wide { overflow: visible; } }
"""

# Cells that begin with numbers are sorted by them, others as text, empty ones last.
_SCRIPT = """
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), body = head.closest("table").tBodies[0];
    const column = head.cellIndex, up = head.getAttribute("aria-sort") !== "ascending";
    for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => row.cells[column].textContent.replaceAll(",", "");
    const compare = (a, b) => {
      const x = key(a), y = key(b), p = parseFloat(x), q = parseFloat(y);
      if (!Number.isNaN(p) && !Number.isNaN(q)) return up ? p - q : q - p;
      if (Number.isNaN(p) !== Number.isNaN(q)) return Number.isNaN(p) ? 1 : -1;
      return up ? x.localeCompare(y) : y.localeCompare(x);
    };
    body.append(...[...body.rows].sort(compare));
  });
}
const save = (title, ending, href) => {
  const link = document.createElement("a");
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  link.download = name + ending;
  link.href = href;
  link.click();
};
const csv = table => [...table.rows].map(row => [...row.cells].map(
  cell => '"' + cell.textContent.replaceAll('"', '""') + '"').join(",")).join("\\r\\n") + "\\r\\n";
for (const button of document.querySelectorAll(".save")) {
  button.addEventListener("click", () => {
    const image = button.closest("figure")?.querySelector("img"), kind = button.textContent;
    if (!image) {
      const table = button.parentNode.parentNode.querySelectorAll("table");
      const title = button.parentNode.firstChild.textContent;
      const after = [...table].find(each => button.compareDocumentPosition(each) & 4);
      save(title, ".csv", "data:text/csv;charset=utf-8," + encodeURIComponent(csv(after)));
    } else if (kind === "SVG") {
      save(image.alt, ".svg", image.src);
    } else {
      const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
      canvas.width = 2 * image.naturalWidth;
      canvas.height = 2 * image.naturalHeight;
      pen.fillStyle = "#fff";
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      save(image.alt, ".png", canvas.toDataURL("image/png"));
    }
  });
}
"""
