"""What the documentation says is executed."""

from __future__ import annotations

import doctest
import functools
import importlib
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

import qops_batsim
from qops_batsim.cli.main import DEFAULTS, command_line

ROOT = Path(__file__).resolve().parent.parent
ALONE = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")]
BUILT = re.compile(r"docs/(commands|notebook-\w+)\.md")
"""Pages that ``.ci/commands-page`` and ``.ci/notebook-pages`` build for the book."""
PAGES = [*ALONE, *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("studies/**/README.md"))]
PAGES += [ROOT / "studies" / "sources.md"]
MORE = [page for page in sorted(ROOT.glob("studies/**/*.md")) if page not in PAGES]
"""Tables and readings beside the studies, which their pages link to."""
PAGES = [page for page in PAGES if not BUILT.fullmatch(str(page.relative_to(ROOT)))]

pytestmark = pytest.mark.skipif(not PAGES[0].is_file(), reason="no documentation beside the tests")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


# Its examples need packages of an environment of their own, in which tests/adapters runs them.
ELSEWHERE = {"ecosystem.md"}
LONG = {"aroma.md", "gymnasium.md"}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=pytest.mark.sweep if page.name in LONG else ())
        for page in PAGES
        if page.name not in ELSEWHERE
    ],
)
def test_python_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), {"__name__": "example"})


PACKAGE = Path(qops_batsim.__file__).parent
# Examples of the adapters need packages of environments of their own.
EXAMPLES = [
    ".".join(("qops_batsim", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in sorted(PACKAGE.rglob("*.py"))
    if re.search("^ *>>> ", path.read_text(), re.MULTILINE) and path.parent.name != "adapters"
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_in_docstrings_run(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert found.attempted
    assert not found.failed


def prose(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return what a page's headings are called in links, in the book as on forges."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


IN_BOOK = ("docs/", "studies/", "notebooks/", "CITATION.cff", "LICENSE")
"""What ``.ci/gather`` copies beside the pages of the project's folder."""


@pytest.mark.parametrize("page", [*PAGES, *MORE], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose(page)):
        if "://" in target:
            continue
        found = (page.parent / target).resolve() if target else page
        assert ROOT in found.parents, f"{page.name} links to {target}, which is not in the project"
        place = name_of(found)
        assert found.is_file() or BUILT.fullmatch(place), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(found), f"{page.name} links to {target}#{anchor}"
        alone = place.endswith(".md") and "/" not in place
        assert alone or place.startswith(IN_BOOK), f"{target} is not in the book"


def test_every_page_is_in_the_book() -> None:
    book = tomllib.loads((ROOT / "zensical.toml").read_text())
    listed = re.findall(r"[\w/-]+\.md", str(book["project"]["nav"]))
    assert len(listed) == len(set(listed))
    there = {name_of(page) for page in PAGES if page not in ALONE}
    alone = {"index.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}
    built = {"docs/commands.md"}
    built |= {f"docs/notebook-{each.stem}.md" for each in ROOT.glob("notebooks/*.ipynb")}
    assert set(listed) == there | alone | built, "zensical.toml lists the pages of the book"


def test_the_readme_opens_with_exactly_two_commands() -> None:
    (first, *_) = blocks(ROOT / "README.md", "sh")
    run, test = first.strip().splitlines()
    assert run.split("#")[0].strip() == (
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/qops-batsim run qops"
    )
    assert test.split("#")[0].strip() == (
        "python3 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/pytest"
    )


@functools.cache
def cli() -> Any:
    return typer.main.get_command(command_line())


def commands_of(page: Path) -> list[list[str]]:
    """Return what a page tells to type, word by word, up to a pipe or a comment."""
    fences = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    shells = "".join(text for language, text in fences if language in ("", "sh", "console"))
    lines = re.sub(r"\\\n\s*", "", shells).splitlines()
    typed = r"(?:^ *|\$ )(qops-batsim .*?)(?:  +#.*| [|&>].*)?$"
    return [shlex.split(found[1]) for found in (re.search(typed, line) for line in lines) if found]


@pytest.mark.parametrize("page", [*PAGES, *MORE], ids=name_of)
def test_commands_have_the_options_that_pages_show(page: Path) -> None:
    for _, *words in commands_of(page):
        command = cli()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if command.name in DEFAULTS and hasattr(command, "commands"):
            command = command.commands[DEFAULTS[command.name]]
        assert not hasattr(command, "commands"), f"{page.name}: {words}"
        options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        shown = {word.split("=")[0] for word in words if word.startswith("-")} - {"--help", "-"}
        if command.name != "engine":  # which reads its own command line
            assert shown <= options, f"{page.name}: {command.name} {words}"
