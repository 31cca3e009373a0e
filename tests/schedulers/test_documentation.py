"""Options of schedulers: what the pages name exists, and what exists is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qops_batsim.protocol import make_scheduler
from qops_batsim.schedulers import scheduler_names

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page.name: page.read_text() for page in sorted(DOCS.glob("*.md"))}

pytestmark = pytest.mark.skipif(
    not PAGES, reason="this copy of the tests comes without the documentation"
)

OPTIONS = {
    name: set(make_scheduler(name).scheduler.Options.__struct_encode_fields__)
    for name in scheduler_names()
}
BUILT = {"commands.md"} | {name for name in PAGES if name.startswith("notebook-")}
"""Pages that are made from the package for the book."""


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_named_in_a_page(name: str) -> None:
    code = " ".join(
        text for page in PAGES.keys() - BUILT for text in re.findall(r"`([^`\n]+)`", PAGES[page])
    )
    assert [each for each in OPTIONS[name] if not re.search(rf"\b{each}\b", code)] == []


@pytest.mark.parametrize("page", PAGES)
def test_options_that_a_page_sets_exist(page: str) -> None:
    # As in qops:k_factor=20,order=earliest_deadline
    for name, settings in re.findall(r"\b([\w-]+):((?:[a-z_]+=[\w.]+,?)+)", PAGES[page]):
        if name in OPTIONS:
            assert set(re.findall(r"([a-z_]+)=", settings)) <= OPTIONS[name]
    # As in run qops --set k_factor=20, over several lines
    for line in re.sub(r"\\\n\s*", " ", PAGES[page]).splitlines():
        for command in re.findall(r"\brun ([\w-]+) ([^`|#]*)", line):
            if command[0] in OPTIONS:
                assert set(re.findall(r"--set (\w+)=", command[1])) <= OPTIONS[command[0]]


@pytest.mark.parametrize("page", PAGES)
def test_tables_of_options_name_options(page: str) -> None:
    """The first cells of a table that is headed *option* are options: on a scheduler's own page of
    it, elsewhere of any.
    """
    known = OPTIONS.get(page.removesuffix(".md"), set().union(*OPTIONS.values()))
    rows = r"^\| option [^\n]*\n\|[-|]+\n((?:\|[^\n]*\n?)+)"
    for table in re.findall(rows, PAGES[page], re.MULTILINE):
        for cell in re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE):
            assert set(re.findall(r"`(\w+)`", cell)) <= known, cell
