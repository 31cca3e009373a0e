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
GENERATED = "commands.md"
ALONE = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")]
PAGES = [*ALONE, *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [page for page in PAGES if page.name != GENERATED]

pytestmark = pytest.mark.skipif(not PAGES[0].is_file(), reason="no documentation beside the tests")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


# Its examples need packages of an environment of their own, in which tests/adapters runs them.
ELSEWHERE = {"ecosystem.md"}
LONG = {"aroma-example.md"}
NOTEBOOK = "notebook-"
"""Beginning of pages that are executed notebooks (``.ci/notebook-pages``)."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.sweep if page.name in LONG else ())
        for page in PAGES
        if page.name not in ELSEWHERE and not page.name.startswith(NOTEBOOK)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose(page)):
        if "://" in target:
            continue
        found = (page.parent / target) if target else page
        assert found.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(found), f"{page.name} links to {target}#{anchor}"
        if page.parent.name == "docs":
            assert (ROOT / "docs") in found.resolve().parents, f"{target} is not in the book"


def test_every_page_is_in_the_book() -> None:
    book = tomllib.loads((ROOT / "zensical.toml").read_text())
    listed = re.findall(r"[\w-]+\.md", str(book["project"]["nav"]))
    assert len(listed) == len(set(listed))
    there = {page.name for page in PAGES if page not in ALONE} | {GENERATED}
    assert set(listed) == there, "zensical.toml lists the pages of the book under nav"


def test_the_readme_opens_with_exactly_two_commands() -> None:
    (first, *_) = blocks(ROOT / "README.md", "sh")
    run, test = first.strip().splitlines()
    assert run.split("#")[0].strip() == (
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/qops-batsim run qops"
    )
    assert test.split("#")[0].strip() == (
        "python3 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/pytest"
    )


def test_the_page_of_commands_is_as_the_commands_are() -> None:
    """Whatever the version of Typer, which decides how it looks."""
    page = " ".join((ROOT / "docs" / GENERATED).read_text().split())

    def check(command: Any, name: str) -> None:
        assert f"## `{name}`" in page or name == "qops-batsim", name
        for each in getattr(command, "commands", {}).values():
            check(each, f"{name} {each.name}")
        about = page.partition(f"## `{name}`")[2].partition(" ## `")[0]
        helps = [command.help, *(getattr(each, "help", None) for each in command.params)]
        for each in helps if " " in name else ():
            told = " ".join((each or "").replace("\b\n", "").split())
            assert told in about, f"{name}: {told}; python .ci/commands-page > docs/commands.md"
        for each in command.params if " " in name else ():
            if getattr(each, "opts", [""])[0].startswith("-"):
                assert each.opts[0] in about, f"{name}: {each.opts[0]}"

    check(cli(), "qops-batsim")


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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
