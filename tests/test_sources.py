"""``studies/sources.md`` names the place of each item of the five sources: each is looked up."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from qops_batsim.cli.main import command_line
from qops_batsim.schedulers import scheduler_class

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "studies" / "sources.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="no documentation beside the tests")

FOLDER = re.compile(r"place: `(studies/\w+/)` …")
COMMAND = "qops-batsim "


def places() -> list[str]:
    """Return what stands in the column of places, with the folder that its head names."""
    found, folder = [], ""
    for line in PAGE.read_text().splitlines():
        cells = [each.strip() for each in line.strip("|").split(" | ")]
        if not line.startswith("|") or line.startswith("|---"):
            continue
        head = FOLDER.search(cells[-1])
        if head or cells[-1] == "place":
            folder = head[1] if head else ""
            continue
        spans = re.findall(r"`([^`]+)`", cells[-1])
        whole = cells[-1].startswith(("refused", "the source", "as in"))
        assert whole or spans or "](" in cells[-1], f"without a place: {line}"
        found += [] if whole else [each if COMMAND in each else folder + each for each in spans]
    return found


def options_of(scheduler: str) -> set[str]:
    return {each.name for each in msgspec.structs.fields(scheduler_class(scheduler).Options)}


@pytest.mark.parametrize("place", places() if PAGE.is_file() else [])
def test_the_place_is_there(place: str) -> None:
    if place.startswith(COMMAND):
        command: Any = typer.main.get_command(command_line())
        words = place.removeprefix(COMMAND).split()
        while words and not words[0].startswith("-"):
            command = command.commands[words.pop(0)]
        known = {name for each in command.params for name in each.opts}
        assert set(words) <= known
        return
    where, _, listed = place.partition(": ")
    names = [each.strip() for each in listed.split(",") if each.strip()]
    if "/" not in where:
        assert set(names) <= options_of(where)
        return
    text = (ROOT / where).read_text()
    if where.endswith(".toml"):
        told = tomllib.loads(text)
        known = {*told, *told.get("claims", {})}
        assert set(names) <= known
    for name in names if where.endswith(".py") else ():
        assert re.search(rf"^(class |def )?{name}\b|\"{name}\"", text, re.MULTILINE), name


@pytest.mark.parametrize("paper", ["islam2003", "islam2004", "talby1999", "pascal2004"])
def test_every_claim_of_a_paper_is_on_the_page(paper: str) -> None:
    folder = ROOT / "studies" / paper
    claims = folder / "claims.toml"
    told = tomllib.loads((claims if claims.is_file() else folder / "study.toml").read_text())
    listed = {
        name.strip()
        for place in places()
        if place.startswith(f"studies/{paper}/")
        for name in place.partition(": ")[2].split(",")
    }
    assert set(told if claims.is_file() else told["claims"]) <= listed
