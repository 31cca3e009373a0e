"""The public names that the changelog lists for its newest version are those of the package."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import qops_batsim
from qops_batsim.cli.main import COMMANDS
from qops_batsim.schedulers import scheduler_names

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"

pytestmark = pytest.mark.skipif(not CHANGELOG.is_file(), reason="no changelog beside the tests")


def listed(what: str) -> list[str]:
    """Return what the newest version lists, as it stands between backquotes."""
    newest = CHANGELOG.read_text().split("\n## ")[1]
    section = newest.partition("### Public names\n")[2].partition("\n### ")[0]
    (entry,) = re.findall(rf"^- {what}: (.*?)\.$", section, re.MULTILINE | re.DOTALL)
    return [" ".join(name.split()) for name in re.findall(r"`(.*?)`", entry, re.DOTALL)]


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


def test_the_names_of_the_package_are_listed_with_their_arguments() -> None:
    assert listed("In `qops_batsim`") == [told(name) for name in qops_batsim.__all__]


def test_commands_and_schedulers_are_listed() -> None:
    assert listed("Commands") == [name for group in COMMANDS.values() for name in group]
    ours = [name for name in scheduler_names() if name in listed("Schedulers")]
    assert ours == listed("Schedulers")
