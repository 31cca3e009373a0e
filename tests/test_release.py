"""A release: the places that name its version agree, and its notes are the changelog's section."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import qops_batsim

ROOT = Path(__file__).resolve().parent.parent
NOTES = ROOT / ".ci" / "notes"

pytestmark = pytest.mark.skipif(not NOTES.exists(), reason="not in a checkout")

HEADING = re.compile(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)


def notes(*tag: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, NOTES, *tag], capture_output=True, text=True)


def test_package_changelog_and_citation_name_one_version_and_date() -> None:
    newest = HEADING.search((ROOT / "CHANGELOG.md").read_text())
    assert newest is not None
    version, date = newest.groups()
    assert version == qops_batsim.__version__
    citation = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {version}" in citation
    assert f"date-released: {date}" in citation


def test_notes_are_the_newest_section_of_the_changelog() -> None:
    done = notes(f"v{qops_batsim.__version__}")
    assert done.returncode == 0, done.stderr
    changelog = (ROOT / "CHANGELOG.md").read_text()
    # Titles begin with two signs, those of their parts with three.
    sections = re.split(r"^## .*\n", changelog, flags=re.MULTILINE)
    assert done.stdout == sections[1].strip() + "\n"
    assert notes().stdout == done.stdout


def test_a_tag_that_is_not_the_version_has_no_notes() -> None:
    done = notes("v0.0.1")
    assert (done.returncode, done.stdout) == (1, "")
    expected = f"the tag is v0.0.1; for this version, v{qops_batsim.__version__} is expected\n"
    assert done.stderr == expected
