"""What docs/interface.md promises to stay is what the package has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import qops_batsim
from qops_batsim.cli.main import command_line
from qops_batsim.schedulers import scheduler_names

PAGE = Path(__file__).resolve().parent.parent / "docs" / "interface.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="no pages beside the tests")


def section(title: str) -> str:
    """Return what stands under a heading of the page."""
    return PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def quoted(text: str) -> list[str]:
    """Return what stands between backquotes, on one line each."""
    return [" ".join(each.split()) for each in re.findall(r"`(.*?)`", text, re.DOTALL)]


def told(name: str) -> str:
    """Return a name, of a function with its arguments: those behind ``*`` are given by name."""
    found = getattr(qops_batsim, name)
    if not inspect.isfunction(found):
        return name
    arguments = []
    for each in inspect.signature(found).parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in arguments:
            arguments.append("*")
        arguments.append(each.name)
    return f"{name}({', '.join(arguments)})"


def options(command: Any, name: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each command with its long options."""
    for each, inner in getattr(command, "commands", {}).items():
        yield from options(inner, f"{name} {each}".strip())
    if not hasattr(command, "commands"):
        shown = [each for each in command.params if not getattr(each, "hidden", False)]
        names = [one for each in shown for one in (*each.opts, *each.secondary_opts)]
        yield name, [each for each in names if each.startswith("--")]


def test_the_names_of_the_package_are_listed_with_their_arguments() -> None:
    listed = quoted(section("Names in Python").partition("\nAlso ")[0])
    assert listed[0] == "qops_batsim"
    assert sorted(listed[1:]) == sorted(map(told, qops_batsim.__all__))


def test_commands_are_listed_with_their_options() -> None:
    listed = {}
    for row in re.findall(r"^\| `.*$", section("Commands"), re.MULTILINE):
        name, *names = quoted(row)
        listed[name] = names
    assert listed == dict(options(typer.main.get_command(command_line())))


def test_schedulers_are_listed() -> None:
    ours = re.search(r"Ours are (.*?);", section("Plug-ins"), re.DOTALL)
    assert ours is not None
    assert quoted(ours[1]) == [name for name in scheduler_names() if name in quoted(ours[1])]
    assert len(quoted(ours[1])) == 12
