import math
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, QopsError, run, verify
from qops_batsim.errors import SimulationError, did_you_mean, shown
from qops_batsim.measures.verify.rule import Rule
from qops_batsim.running.contract import cases


def test_every_error_of_ours_is_caught_by_the_base() -> None:
    assert issubclass(InputError, QopsError)
    assert issubclass(SimulationError, QopsError)


def test_a_message_is_one_short_line_whatever_it_holds() -> None:
    text = str(InputError("a\nb\x1b[31m\udce9ö \u2028" + "x" * 100_000 + "; 1 is expected"))
    assert text.startswith(r"a\nb\x1b[31m\udce9ö \u2028xxx")
    assert text.endswith("xxx; 1 is expected")
    assert len(text) < 1500
    assert text.isprintable()
    assert str(pickle.loads(pickle.dumps(InputError("a\n")))) == r"a\n"


def test_the_nearest_name_is_suggested_and_all_are_listed() -> None:
    assert did_you_mean("esay", ["fcfs", "easy"]) == "; did you mean 'easy'? (known: easy, fcfs)"
    assert did_you_mean("zzz", ["fcfs", "easy"]) == " (known: easy, fcfs)"
    assert did_you_mean("zzz", []) == " (known: )"


def test_values_are_shown_as_in_the_file() -> None:
    assert shown("a\nb") == r"'a\nb'"
    assert shown(None) == "null"
    assert shown(True) == "true"
    assert shown([1, {"a": "b"}]) == '[1, {"a": "b"}]'
    assert shown(math.inf) == "Infinity"


def test_what_cannot_be_shown_is_named_by_its_type() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert shown(endless) == "a value of type list"
    assert shown(10**5000) == "a value of type int"
    assert shown({1, 2}) == "a value of type set"


def test_long_values_are_cut() -> None:
    assert shown("x" * 58) == "'" + "x" * 58 + "'"
    assert shown("x" * 59) == "'" + "x" * 56 + "..."
    assert len(shown(list(range(1000)))) == 60
    assert shown("\x00" * 10**6) == "'" + r"\x00" * 14 + "..."


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner)))
def test_a_value_is_always_shown_on_one_short_line(value: object) -> None:
    text = shown(value)
    assert len(text) <= 60
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("admited_jobs", ("unadmitted_jobs", "utilization"), None),
        ("unadmited_jobs", ("unadmitted_jobs", "utilization"), "unadmitted_jobs"),
        ("admitted", ("unadmitted",), None),
        ("unavailable", ("available",), None),
        ("availble", ("unavailable", "available"), "available"),
        ("no-delays", ("delays",), None),
        ("min_price", ("max_price",), None),
        ("max_pric", ("max_price",), "max_price"),
        ("without-hosts", ("with-hosts",), None),
        ("last_start", ("first_start",), None),
        ("met_deadlines", ("missed_deadlines",), None),
        ("estimats", ("estimates",), "estimates"),
    ],
)
def test_the_contrary_is_no_suggestion(name: str, known: tuple[str, ...], near: str | None) -> None:
    assert did_you_mean(name, known).startswith(
        f"; did you mean {near!r}?" if near else " (known: "
    )


PAGES_WITH_COUNTS = ("tutorial.md", "own-scheduler.md")


def test_pages_count_rules_and_cases_as_they_are(tmp_path: Path) -> None:
    docs = Path(__file__).resolve().parent.parent / "docs"
    checked: list[Rule] = []
    done = run("qops", "sdsc_sp2_deadlines_500", out=tmp_path / "qops")
    verify(done, on_rule=checked.append)
    rules, tried = len(checked), len(list(cases()))
    texts = {name: " ".join((docs / name).read_text().split()) for name in PAGES_WITH_COUNTS}
    assert f"against {rules} rules" in texts["tutorial.md"]
    words = {21: "twenty-one", 22: "twenty-two", 23: "twenty-three"}
    assert f"on {words[tried]} small adversarial" in texts["own-scheduler.md"]
