"""The numbers of READMEs are tied to those of commands: what differs is told, what is drawn is."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tie_numbers import new_ties
from studies.reproduce.__main__ import OVERVIEW, README, Study, planned, read_settings
from studies.reproduce.page_numbers import MINUS, Number, agree, find, numbers_of
from studies.reproduce.parts import STUDIES, Part, drawn, toml
from studies.reproduce.ties import all_agree

SETTINGS = read_settings()
NAMES = [name for name in SETTINGS.studies if name != OVERVIEW]

PAGE = """# A page

## Answer

1. It refuses 3.4 points more [1.2,
   5.6] on 430 processors at load 1.4, not 7.1.

### Refused (%)

| load | scheduler | jobs | work |
|---|---|---|---|
| 1.2 | msb | 13.7 | 9.1 [8.0, 10.2] |
| 1.2 | qops | 12.5 (-1.2) | 8.9 |
| 1.6 | msb | 22.8 | 1,004 |
"""


def test_numbers_have_the_names_of_their_table_row_and_column() -> None:
    found = {each.address: each.texts for each in numbers_of(PAGE)}
    sentence = "Answer | It refuses # points more [#, #] on # processors at load #, not #"
    named = {name.replace(sentence, "sentence"): texts for name, texts in found.items()}
    # Load and processors say where it was measured; two cells tell the rows of the table apart.
    assert list(named.values())[:2] == [("3.4", "1.2", "5.6"), ("7.1",)]
    assert {name: texts for name, texts in named.items() if name.startswith("Refused")} == {
        "Refused (%) 1 | 1.2, msb | jobs": ("13.7",),
        "Refused (%) 1 | 1.2, msb | work": ("9.1", "8.0", "10.2"),
        "Refused (%) 1 | 1.2, qops | jobs": ("12.5",),
        "Refused (%) 1 | 1.2, qops | jobs (2)": ("-1.2",),
        "Refused (%) 1 | 1.2, qops | work": ("8.9",),
        "Refused (%) 1 | 1.6, msb | jobs": ("22.8",),
        "Refused (%) 1 | 1.6, msb | work": ("1,004",),
    }


def test_a_part_of_a_page_has_the_same_names() -> None:
    #  whole: (1.2, msb) (1.2, qops) (1.6, msb)     part: (1.6), as one cell tells its row; it is
    #  no row that has this cell and another second one
    table = "### Refused (%)\n\n| load | scheduler | jobs | work |\n|-|-|-|-|\n"
    part = numbers_of(f"{table}| 1.6 | msb | 22.9 | 7 |")
    found = [(each.texts, it.texts) for each in numbers_of(PAGE) if (it := find(part, each))]
    assert found == [(("22.8",), ("22.9",)), (("1,004",), ("7",))]
    other = numbers_of(f"{table}| 1.2 | mrt | 13.7 | 7 |")
    assert not any(find(other, each) for each in numbers_of(PAGE))


@pytest.mark.parametrize(
    ("shown", "found", "same"),
    [
        ("7.3", "7.3", True),
        ("7.3", "7.34", True),
        ("7.3", "-7.25", True),  # a fall by 7.3
        ("+7.3", "-7.3", False),
        (f"{MINUS}7.3", "-7.31", True),
        ("7.3", "7.36", False),
        ("1,004", "1004.4", True),
        ("7.30", "7.3", False),  # more digits than there are
    ],
)
def test_numbers_agree_to_the_digits_shown(shown: str, found: str, same: bool) -> None:
    assert agree(shown, found) is same


def test_a_fall_has_the_interval_of_the_change_turned_round() -> None:
    def number(*texts: str) -> Number:
        return Number(1, "", (), 0, "", texts)

    change = number("-41.2", "-56.4", "-21.9")
    assert all_agree(number("41", "22", "56"), change)
    assert not all_agree(number("41", "22", "57"), change)


def test_new_numbers_are_tied_by_value_names_and_neighbours() -> None:
    readme = numbers_of("| | work |\n|---|---|\n| MSB | 9.1 [8.0, 10.2] |\n| QoPS | 8.8 |\n")
    ties = new_ties(readme, {"page": numbers_of(PAGE)}, {})
    assert ties == {"1 | MSB | work": ("page", "Refused (%) 1 | 1.2, msb | work")}
    # What is kept stays as it is, but of what is gone.
    kept = {"1 | MSB | work": ("-", "")}
    assert new_ties(readme, {"page": numbers_of(PAGE)}, kept) == kept
    assert new_ties([], {"page": numbers_of(PAGE)}, kept) == {}


def study(name: str, folder: Path | None = None) -> Study:
    """Return a study, that of all studies with the numbers of these."""
    found = Study(name, SETTINGS, folder)
    for other in NAMES if name == OVERVIEW else ():
        found.add(Study(other, SETTINGS))
    return found


@pytest.mark.parametrize("name", SETTINGS.studies)
def test_each_readme_agrees_with_the_pages_that_commands_have_written(name: str) -> None:
    one = study(name)
    rows, _ = one.tied()
    assert [each.cells for each in rows if not each.agrees] == []
    gone = one.ties.keys() - {each.address for each in one.by_hand()}
    there = {source: {each.address for each in it} for source, it in one.written.items()}
    lost = {tie for tie in one.ties.values() if tie[1] not in there.get(tie[0], tie[1:])}
    assert not gone | lost, f"python benchmarks/tie_numbers.py {name}"


def other_digit(text: str) -> str:
    """Return a number with another last digit: not the next, as 9.25 may be 9.2 or 9.3."""
    return text[:-1] + str((int(text[-1]) + 2) % 10)


@pytest.mark.parametrize("name", SETTINGS.studies)
def test_a_changed_digit_of_a_readme_is_caught(name: str, tmp_path: Path) -> None:
    rows, _ = study(name).tied()
    folder = tmp_path / "study"
    shutil.copytree(STUDIES / name, folder, ignore=shutil.ignore_patterns("*.png", "*.py"))
    lines = (folder / README).read_text().splitlines()
    for row in random.Random(1).sample(rows, min(3, len(rows))):
        line, text = lines[row.number.line - 1], row.number.texts[0]
        exactly = rf"(?<![\d.,]){re.escape(text)}(?![.,]?\d)"
        changed = re.sub(exactly, other_digit(text), line)
        assert changed != line
        others = lines[: row.number.line - 1], lines[row.number.line :]
        (folder / README).write_text("\n".join([*others[0], changed, *others[1]]))
        found, _ = study(name, folder).tied()
        assert row.number.address in {each.number.address for each in found if not each.agrees}


@pytest.mark.parametrize("name", [name for name in NAMES if study(name).written])
def test_a_changed_digit_of_a_generated_page_is_caught(name: str) -> None:
    one = study(name)
    command = next(each for each in one.commands if each.page)
    page = one.written[one.source_name(command)]
    rows = list(one.compared(command, page, is_part=False))
    assert rows
    assert all(row.agrees for row in rows)
    number = random.Random(1).choice(rows).number
    changed = number._replace(texts=(other_digit(number.texts[0]), *number.texts[1:]))
    made = [changed if each == number else each for each in page]
    wrong = [row for row in one.compared(command, made, is_part=False) if not row.agrees]
    assert [row.number for row in wrong] == [number]
    assert wrong[0].cells[2:] == [number.shown, f"{changed.shown} (differs)"]
    # The whole has to give all numbers.
    assert not any(row.agrees for row in one.compared(command, [], is_part=False))


def test_a_log_that_is_not_at_hand_is_exempt_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QOPS_SHARED", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = [sys.executable, STUDIES / "reproduce", "--quick", "--only", "easy_orders"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    log = "KTH-SP2-1996-2.swf.gz"
    assert f"exempt, as {log} is not at hand: python studies/easy_orders\n" in done.stdout
    assert " 0 of them made now, 0 differ" in done.stdout


def test_the_parts_of_a_seed_are_the_same_and_keep_to_the_time() -> None:
    studies = [Study(name, SETTINGS) for name in NAMES]
    plans = [planned(studies, seed, 100.0) for seed in (1, 1, 2)]
    names = [[each.command.name(each.study.name) for each in plan] for plan in plans]
    assert names[0] == names[1] != names[2]
    assert sum(each.seconds for each in plans[2]) <= 100.0
    # What is left of much time is for other draws of the parts; what draws nothing is run once.
    much = [(each.command.name(each.study.name), each.seed) for each in planned(studies, 1, 1e4)]
    assert len(set(much)) == len(much)
    assert much.count(("python studies/presets --quick", 1)) == 1
    assert ("python studies/easy_orders", 1001) in much
    assert ("python studies/presets --quick", 1001) not in much
    whole = planned(studies, None, 100.0)
    assert len(whole) == sum(len(each.commands) for each in studies)


@given(st.lists(st.integers(), unique=True), st.integers(0, 9), st.integers(), st.data())
def test_items_are_drawn_by_seed_in_their_order(
    items: list[int], count: int, seed: int, data: st.DataObject
) -> None:
    keep = tuple(data.draw(st.lists(st.sampled_from(items), unique=True))) if items else ()
    part = Part(draw={"table.items": count}, keep=keep, seconds=1.0)  # type: ignore[arg-type]
    settings: dict[str, Any] = {"table": {"items": items}}
    found = drawn(settings, part, random.Random(seed))["table"]["items"]
    assert found == [each for each in items if each in found]
    assert set(keep) <= set(found)
    assert len(found) == min(len(keep) + count, len(items))
    assert found == drawn(settings, part, random.Random(seed))["table"]["items"]


SCALARS = (
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"))


@given(st.recursive(SCALARS | TEXTS, lambda x: st.lists(x) | st.dictionaries(TEXTS, x)))
def test_settings_are_written_as_they_are_read(value: Any) -> None:
    assert tomllib.loads(f"it = {toml(value)}")["it"] == value


def test_each_part_names_settings_that_are_there() -> None:
    for name in NAMES:
        settings = tomllib.loads((STUDIES / name / "study.toml").read_text())
        for command in SETTINGS.studies[name]:
            if command.part is not None:
                assert drawn(settings, command.part, random.Random(1))
