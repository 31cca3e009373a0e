"""``workload users`` and ``run --users``, as typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.dates import Calendar
from qops_batsim.users import read_users, write_users
from support.users import BY_SLACK, batch, crowd, user

SWF = """; MaxProcs: 4
; UnixStartTime: 843480031
; TimeZoneString: Europe/Stockholm
1 0 5 100 4 -1 -1 4 200 -1 1 7 1 -1 -1 -1 -1 -1
2 200 0 50 2 -1 -1 2 100 -1 1 7 1 -1 -1 -1 -1 -1
3 90000 0 60 1 -1 -1 1 100 -1 1 8 1 -1 -1 -1 -1 -1
"""


def said(done: Any) -> str:
    return " ".join(f"{done.out} {done.err}".split())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log.swf").write_text(SWF)
    return tmp_path / "log.swf"


def test_users_of_a_log_run_and_react(cli: Any, tmp_path: Path, log: Path) -> None:
    done = cli("workload", "users", str(log), str(tmp_path / "users.json"))
    assert done.exit_code == 0
    assert "batches not waited for" in said(done)
    found = read_users(tmp_path / "users.json")
    assert [each.name for each in found.users] == ["7", "8"]
    assert found.calendar is not None
    assert found.calendar.time_zone == "Europe/Stockholm"
    out = str(tmp_path / "run")
    done = cli("run", "easy", "--users", str(tmp_path / "users.json"), "--out", out)
    assert done.exit_code == 0, done.err
    assert "users wanted 3 jobs and asked 3 times: 3 were done" in said(done)
    assert cli("verify", out).exit_code == 0
    rows = Path(f"{out}_users.csv").read_text().splitlines()
    assert rows[1].split(",")[:4] == ["1", "7", "0.000000", "100.000000"]


def test_a_file_of_users_is_changed(cli: Any, tmp_path: Path) -> None:
    given, out = str(tmp_path / "users.json"), str(tmp_path / "more.json")
    people = user("ann", batch((0.0, 1, 10.0))), user("bob", batch((0.0, 1, 5.0)))
    write_users(crowd(*people, calendar=Calendar(0, "UTC")), given)
    example = cli("workload", "users", "--example").out
    (tmp_path / "choices.toml").write_text(example.replace("# [deadlines]", "[deadlines]"))
    chosen = "--choices", str(tmp_path / "choices.toml")
    done = cli("workload", "users", given, out, "--times", "2", "--seed", "5", *chosen, "--json")
    assert done.exit_code == 0, done.err
    assert json.loads(done.out)["users"] == 4
    found = read_users(out)
    assert found.seed == 5
    assert found.deadlines is not None
    # The example says what holds without it.
    assert found.reactions == read_users(given).reactions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[reactions]\nliars = 2", "liars is 2; a number from 0 to 1 is"),
        ("[reactions.answers]\nleave = 1.0", "answers: sum is 1.8"),
        ("think_limit = -1", "think_limit is -1; a number above 0"),
        ("[deadlines]\nshare = 2", "choices.toml: deadline share is 2; a number from 0 to 1"),
        ("think_limit = 600", "think_limit is 600, but the users in"),
        ("[reactions]\nhopes = 2", "field reactions.hopes is not known"),
        ("[reactions", "choices about users (TOML) is expected"),
        ("[deadlines.mix]\nhours = 1", "deadlines by working hours need dates"),
    ],
)
def test_choices_that_are_none(cli: Any, tmp_path: Path, text: str, message: str) -> None:
    write_users(crowd(user("ann", batch((0.0, 1, 10.0)))), tmp_path / "users.json")
    (tmp_path / "choices.toml").write_text(text)
    given = str(tmp_path / "users.json"), str(tmp_path / "out.json")
    done = cli("workload", "users", *given, "--choices", str(tmp_path / "choices.toml"))
    assert done.exit_code == 2
    assert message in said(done)
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"then"', '"then"', ""),
        ("[[0.0,1,10.0,10.0]]", "[]", "field users[0].batches[0][0] is []; a list of 1 or more"),
        ("[0.0,1,10.0,10.0]", "[0.0,9,10.0,10.0]", "a job's processors is 9; 1 to 4"),
        ("[0.0,1,10.0,10.0]", "[0.0,1,-1.0,10.0]", "[0][0][2] is -1.0; a number above 0"),
        ('"break"', '"pause"', "is 'pause' (known: break, leave, think)"),
        ('"since":0.0', '"since":9e9', "since, until is [9000000000.0"),
        ('"name":"bob"', '"name":"ann"', "users of different names"),
    ],
)
def test_files_of_users_that_are_none(
    cli: Any, tmp_path: Path, old: str, new: str, message: str
) -> None:
    people = user("ann", batch((0.0, 1, 10.0))), user("bob", batch((0.0, 1, 5.0)))
    write_users(crowd(*people, deadlines=BY_SLACK), tmp_path / "users.json")
    text = (tmp_path / "users.json").read_text()
    if message:
        assert old in text
        (tmp_path / "users.json").write_text(text.replace(old, new, 1))
    out = "--out", str(tmp_path / "run")
    done = cli("run", "easy", "--users", str(tmp_path / "users.json"), *out, "--quiet")
    assert done.exit_code == (2 if message else 0), done.err
    assert message in said(done)


def test_what_does_not_go_together(cli: Any, tmp_path: Path, log: Path) -> None:
    users, out = str(tmp_path / "users.json"), str(tmp_path / "run")
    assert cli("workload", "users", str(log), users).exit_code == 0
    done = cli("run", "easy", "--users", users, "--workload", "tiny_8", "--out", out)
    assert done.exit_code == 2
    assert "one of both is expected" in said(done)
    done = cli("workload", "users", users, str(tmp_path / "b.json"), "--processors", "3")
    assert done.exit_code == 2
    assert "--processors is for logs only" in said(done)
    done = cli("workload", "users", str(log), str(log))
    assert done.exit_code == 2
    assert "is the input itself" in said(done)
