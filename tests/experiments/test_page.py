"""The page of a report: one file, readable as text, with tables that a click sorts."""

from __future__ import annotations

import gzip
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from qops_batsim.experiments import PageTable
from qops_batsim.experiments import page as page_module
from qops_batsim.experiments.page import PageFacts, PagePicture, PageText, html_page
from qops_batsim.experiments.pictures import page_picture

TABLE = PageTable(
    title="Waits",
    headings=["scheduler", "wait", "verdict"],
    rows=[
        ["easy", "1,200.00", "confirmed"],
        ["<b>mine</b>", "-3.00 [-4.00, -2.00]", "contradicted"],
        ["fcfs", "", "undecided"],
        ["qops", "90.00", "not judged"],
    ],
)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
DATA = "load,wait\n1,7\n"
PAGE = html_page(
    "A & B",
    "Two schedulers",
    {
        "Tables": [TABLE],
        "Nothing": [None],
        "Pictures": [PagePicture(title="One: a & b", svg=SVG, data=DATA)],
        "Words": [PageText(paragraphs=["a < b", "c"])],
        "Choices": [PageFacts(facts={"seeds": "1, 2"})],
    },
    "qops-batsim compare 'a b'",
)


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_well_formed_and_needs_no_other_file() -> None:
    outline = _Outline()
    outline.feed(PAGE)
    assert outline.open == []
    assert all(each.startswith(("#", "data:")) for each in outline.addresses)
    assert "<b>mine</b>" in outline.text
    assert "Nothing" not in outline.text
    assert "url(" not in PAGE


def test_verdicts_stand_out_and_numbers_are_aligned() -> None:
    assert '<span class="bad">contradicted</span>' in PAGE
    assert '<td class="number">-3.00 [-4.00, -2.00]</td>' in PAGE


def test_names_of_rows_are_aligned_alike() -> None:
    rows = [["2 to 8", "3"], ["all", "-"]]
    table = PageTable(title="Classes", headings=["class", "wait"], rows=rows)
    page = html_page("A", "B", {"C": [table]}, "x")
    assert '<tr><td>2 to 8</td><td class="number">3</td></tr>' in page
    assert '<tr><td>all</td><td class="number">-</td></tr>' in page


def test_what_is_shown_can_be_saved_without_a_network() -> None:
    assert "<p>a &lt; b</p>" in PAGE
    content = b64encode(DATA.encode()).decode()
    assert f'download="one-a-b.csv" href="data:text/csv;base64,{content}"' in PAGE


def test_titles_cannot_leave_their_attributes() -> None:
    picture = PagePicture(title='" onload="alert(1)', svg=SVG, data=DATA)
    page = html_page("A", "B", {"<script>": [picture]}, "x")
    outline = _Outline()
    outline.feed(page)
    assert outline.open == []
    assert ' onload="' not in page
    assert page.count("<script>") == 1


def packed_page(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(page_module, "PACKED_FROM", len(SVG))
    picture = PagePicture(title="One", svg=SVG)
    return html_page("A", "B", {"Pictures": [picture]}, "x")


def test_many_pictures_are_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    page = packed_page(monkeypatch)
    (packed,) = re.findall('<img data-svg="(.*?)"', page)
    assert gzip.decompress(b64decode(packed)) == SVG
    assert "DecompressionStream" in page
    assert "DecompressionStream" not in PAGE


def test_compressed_pictures_are_shown_in_a_browser(
    browse: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = browse(packed_page(monkeypatch))
    assert 'src="data:image/svg+xml;charset=utf-8,%3Csvg' in shown


def test_equal_content_gives_equal_pages() -> None:
    assert html_page("a", "b", {}, "x") == html_page("a", "b", {}, "x")


def test_pictures_have_titles() -> None:
    made = page_picture("Figure 4", lambda axes: axes.plot([1, 2]), 2.0, data="a,b")
    assert (made.title, made.file_name, made.data) == ("Figure 4", "figure-4", "a,b")
    assert made.svg.startswith(b"<?xml")
    assert made == page_picture("Figure 4", lambda axes: axes.plot([1, 2]), 2.0, data="a,b")


def test_a_click_on_a_heading_sorts_in_a_browser(browse: Callable[[str], str]) -> None:
    def first_cells(clicks: str) -> list[str]:
        shown = browse(PAGE.replace("</body>", f"<script>{clicks}</script></body>"))
        assert 'aria-sort="' in shown
        return re.findall(r"<tr><td>(.*?)</td>", shown)

    by_name, by_wait = (f'document.querySelectorAll("th button")[{i}].click();' for i in (0, 1))
    mine = "&lt;b&gt;mine&lt;/b&gt;"
    assert first_cells(by_name) == [mine, "easy", "fcfs", "qops"]
    assert first_cells(by_wait) == [mine, "qops", "easy", "fcfs"]
    assert first_cells(by_wait + by_wait) == ["easy", "qops", mine, "fcfs"]


def test_dates_are_sorted_as_dates_in_a_browser(browse: Callable[[str], str]) -> None:
    rows = [["a", "2026-03-01 08:00"], ["b", "-"], ["c", "2026-02-27 09:00"]]
    page = html_page("A", "B", {"C": [PageTable(title="T", headings=["a", "b"], rows=rows)]}, "x")
    click = 'document.querySelectorAll("th button")[1].click();'
    shown = browse(page.replace("</body>", f"<script>{click}{click}</script></body>"))
    assert re.findall(r"<tr><td>(.*?)</td>", shown) == ["a", "c", "b"]


def test_tables_and_pictures_are_saved_in_a_browser(browse: Callable[[str], str]) -> None:
    script = """
const saved = [];
onerror = message => saved.push("error: " + message);
HTMLAnchorElement.prototype.click = function() {
  saved.push(this.download + " " + decodeURIComponent(this.href).slice(0, 60));
};
onload = () => {
  for (const each of document.querySelectorAll(".save")) each.click();
  document.body.textContent = saved.join("\\n");
};
"""
    shown = browse(PAGE.replace("</body>", f"<script>{script}</script></body>"))
    table, svg, png = re.findall(r"(?m)^(?:.*<body>)?(\S+\.(?:csv|svg|png) .*)$", shown)
    assert table.startswith('waits.csv data:text/csv;charset=utf-8,"scheduler","wait","verdict"')
    assert svg.startswith("one-a-b.svg data:image/svg+xml;base64,")
    assert png.startswith("one-a-b.png data:image/png;base64,iVBOR")
    assert "error: " not in shown


def test_the_page_fits_a_phone_and_follows_the_dark_in_a_browser(
    browse: Callable[[str], str],
) -> None:
    # A frame is as wide as a phone, whatever the least width of a window is.
    measured = (
        "document.title = [document.documentElement.scrollWidth <= innerWidth, "
        "document.images[0].naturalWidth, "
        'matchMedia("(prefers-color-scheme: dark)").media].join(" ")'
    )
    shown = browse(
        PAGE.replace("</body>", f"<script>onload = () => {{ {measured} }}</script></body>")
    )
    assert "<title>true 9 (prefers-color-scheme: dark)</title>" in shown
