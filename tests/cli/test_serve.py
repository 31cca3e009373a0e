from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from qops_batsim.core import HostSet
from qops_batsim.protocol import SchedulerModule, decode_decisions
from support.decision_process import LIMIT_MS, Engine, begins
from support.recordings import cases

MAIN = [sys.executable, "-c", "from qops_batsim.cli.main import main; main()"]
LIMIT = LIMIT_MS / 1000


@pytest.fixture
def endpoint(tmp_path):
    return f"ipc://{tmp_path}/socket"


@contextmanager
def in_thread(engine: Callable[[], Any]):
    """Play the engine's part beside the command; its failures are the test's."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            engine()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(2 * LIMIT)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def served(cli, endpoint, play, *arguments):
    """Run the command while ``play(engine)`` runs; return the command's result."""

    def engine():
        with Engine(endpoint) as each:
            play(each)

    with in_thread(engine):
        return cli("serve", *arguments, "--socket", endpoint, "--timeout", LIMIT)


def qos(prefix):
    with open(f"{prefix}_qos.csv", newline="") as stream:
        return {f"{row['workload_name']}!{row['job_id']}": row for row in csv.DictReader(stream)}


def whole_simulation(engine, **config):
    engine.begin(4, **config)
    engine.submit(1.0, "wide", 5, walltime=10)
    (start,) = engine.submit(2.0, "fits", 4, walltime=10, qos={"deadline": 99})
    assert (start["type"], start["data"]["alloc"]) == ("EXECUTE_JOB", "0-3")
    engine.tell(
        12.0,
        (
            "JOB_COMPLETED",
            {
                "job_id": "w0!fits",
                "job_state": "COMPLETED_SUCCESSFULLY",
                "return_code": 0,
                "alloc": "0-3",
            },
        ),
    )
    assert engine.tell(12.5, ("SIMULATION_ENDS", {})) == []


def summary(text):
    cells = [line.split("│") for line in text.splitlines() if "│" in line]
    return {name.strip(): value.strip() for name, value in cells[1:]}


# A simulation


def test_a_simulation_is_served_and_summed_up(cli, endpoint, tmp_path):
    result = served(cli, endpoint, whole_simulation, "easy", "--out", tmp_path / "o" / "run")
    assert result.exit_code == 0
    assert summary(result.out) == {
        "jobs submitted": "2",
        "jobs accepted": "1",
        "jobs rejected": "1",
        "jobs killed": "0",
        "messages": "5",
        "simulated time (s)": "12.500000",
        "simulation ended": "yes",
    }
    assert result.err.splitlines() == [
        "where hosts have amounts, start Batsim 4 with --enable-compute-sharing; "
        f"easy listens at {endpoint}",
        f"wrote {tmp_path}/o/run_qos.csv",
    ]
    rows = qos(tmp_path / "o" / "run")
    assert rows["w0!fits"]["requested_deadline"] == "99.000000"
    assert rows["w0!wide"]["reason"] == "asks for 5 processors, the machine has 4"


def test_quiet_says_nothing(cli, endpoint, tmp_path):
    result = served(cli, endpoint, whole_simulation, "fcfs", "-q", "-o", tmp_path / "run")
    assert (result.exit_code, result.out, result.err) == (0, "", "")
    assert len(qos(tmp_path / "run")) == 2


@pytest.mark.parametrize("scheduler", ["fcfs", "easy"])
def test_recorded_sessions_of_batsim_are_answered_by_the_rules(
    cli, shared, endpoint, tmp_path, scheduler
):
    sessions = [
        case
        for case in cases(shared)
        if case.name.startswith(("batsched_", "v310_")) and case.ended
    ]
    assert {case.batsim for case in sessions} == {"4.2.1", "3.1.0"}

    def play_all():
        for case in sessions:
            with Engine(endpoint) as engine:
                play(engine, case)

    with in_thread(play_all):
        result = cli(
            *("serve", scheduler, "--socket", endpoint, "--loop"),
            *("--timeout", 1, "--out", tmp_path / "run"),
        )
    assert result.exit_code == 0, result.err
    assert "error" not in result.err
    assert "ignored" not in result.err
    assert result.out.count("simulated time") == len(sessions)
    written = sorted(path.name for path in tmp_path.glob("*_qos.csv"))
    assert written == sorted(
        ["run_qos.csv", *(f"run-{n}_qos.csv" for n in range(2, len(sessions) + 1))]
    )


def play(engine, case):
    """Say what Batsim said, of jobs that we started; check that every answer keeps the rules."""
    waiting: dict[str, int] = {}
    running: dict[str, HostSet] = {}
    for message in case.messages():
        if message["from"] != "batsim":
            continue
        said = json.loads(message["raw"])
        now, events = said["now"], said["events"]
        said["events"] = []
        for event in events:
            data = event["data"]
            if event["type"] == "JOB_SUBMITTED":
                waiting[data["job_id"]] = data["job"]["res"]
            elif event["type"] == "JOB_COMPLETED":
                hosts = running.pop(data["job_id"], None)
                if hosts is None:
                    continue
                data["alloc"] = str(hosts)
            if event["type"] != "JOB_KILLED":
                said["events"].append(event)
        answer = decode_decisions(engine.say(json.dumps(said)))
        assert answer.now == now
        busy = HostSet()
        for hosts in running.values():
            busy |= hosts
        for decision in answer.events:
            assert decision.timestamp <= now
            processors = waiting.pop(decision.body.job_id)
            if decision.body.TYPE == "REJECT_JOB":
                assert not 1 <= processors <= case.hosts
                continue
            assert decision.body.TYPE == "EXECUTE_JOB"
            hosts = decision.body.alloc
            assert len(hosts) == processors
            assert not hosts & busy
            assert not hosts - HostSet.first(case.hosts)
            busy |= hosts
            running[decision.body.job_id] = hosts


# Options of the scheduler


def placed_by(engine, answers, **config):
    """Find out whether conservative backfilling reserves hosts: a job may wait for its own."""
    engine.begin(2, **config)
    engine.submit(0.0, "a", 1, walltime=10)
    engine.submit(0.0, "b", 1, walltime=20)
    answers.append("begun")
    engine.tell(1.0, ("SIMULATION_ENDS", {}))


@pytest.mark.parametrize(
    ("config", "arguments", "said"),
    [
        ({}, [], None),
        ({"sched_config": ""}, [], None),
        ({"sched_config": '{"reserve":"processors"}'}, [], None),
        ({"sched_config": '{"reserve":"nonsense"}'}, ["--set", "reserve=hosts"], None),
        (
            {"sched_config": '{"reserve":"nonsense"}'},
            [],
            "option reserve is 'nonsense' (known: ",
        ),
        ({"sched_config": '{"reserv":"hosts"}'}, [], "no option 'reserv'; did you mean 'reserve'?"),
        ({"sched_config": "[1]"}, [], "the scheduler's configuration: is [1]; a JSON object"),
        ({"sched_config": "fast"}, [], "the scheduler's configuration: not JSON"),
        ({"sched_config": '{"reserve":' + "[" * 9999}, [], "configuration: JSON nested too deeply"),
    ],
)
def test_options_from_the_engines_configuration(cli, endpoint, tmp_path, config, arguments, said):
    answers = []

    def play(engine):
        if said is None:
            placed_by(engine, answers, **config)
        else:
            engine.begin(2, **config)

    def refused(engine):
        with pytest.raises(json.JSONDecodeError):
            play(engine)

    result = served(
        cli,
        endpoint,
        play if said is None else refused,
        *("conservative", "-o", tmp_path / "run", "--quiet", *arguments),
    )
    if said is None:
        assert (result.exit_code, result.err) == (0, "")
        assert answers == ["begun"]
        return
    assert result.exit_code == 2
    assert said in result.err
    assert "--sched-cfg is" in result.err
    assert result.err.count("\n") == 1
    assert not list(tmp_path.glob("*.csv"))


def test_a_wrong_option_of_the_command_is_refused_before_listening(cli, endpoint):
    result = cli("serve", "easy", "--set", "depth=3", "--socket", endpoint, "--timeout", 0.1)
    assert result.exit_code == 2
    assert "scheduler 'easy' has no option 'depth'" in result.err
    assert "listens" not in result.err


def test_an_open_socket_is_refused(cli):
    result = cli("serve", "easy", "--socket", "tcp://*:28000", "--timeout", 0.1)
    assert result.exit_code == 2
    assert "would let anyone on other machines connect" in result.err


def test_any_interface(cli):
    result = cli(
        *("serve", "easy", "--socket", "tcp://0.0.0.0:*", "--any-interface", "--timeout", 0.1)
    )
    assert result.exit_code == 3
    assert "easy listens at tcp://0.0.0.0:" in result.err


# What engines should not say


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "message: JSON that ends too early"),
        ("[]", "message: is []; a message of"),
        ('{"now":"soon","events":[]}', "message: field now is 'soon'; a number"),
        (
            '{"now":5,"events":[{"timestamp":5,"type":"JOB_SUBMITTED","data":{}}]}',
            "(JOB_SUBMITTED)",
        ),
        ('{"now":0.5,"events":[]}', "message at 0.5 s comes after one at 1 s"),
        (
            '{"now":5,"events":[{"timestamp":5,"type":"JOB_SUBMITTED",'
            '"data":{"job_id":"x","job":{"id":"x","subtime":5,"res":-1,"profile":"p"}}}]}',
            "field 'res' is -1",
        ),
        ("[" * 100_000, "message: "),
    ],
)
def test_a_malformed_message_ends_in_one_error(cli, endpoint, tmp_path, text, said):
    def engine_says(engine):
        engine.begin(4)
        engine.submit(1.0, "1", 1)
        assert engine.say(text).startswith(b"qops-batsim serve: ")

    result = served(cli, endpoint, engine_says, "easy", "-o", tmp_path / "run", "-q")
    assert result.exit_code == 2
    assert result.err.startswith("qops-batsim: error: ")
    assert result.err.count("\n") == 1
    assert said in result.err
    assert list(qos(tmp_path / "run")) == ["w0!1"]  # What was decided is kept.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"now":0,"events":[{"timestamp":0,"type":"REQUESTED_CALL"}]}',
            "(REQUESTED_CALL): the first event is another one; SIMULATION_BEGINS is",
        ),
        ('{"now":0,"events":[]}', "begins with nothing; SIMULATION_BEGINS"),
        ("GET / HTTP/1.0", "message: not JSON"),
        (b"\xff" * 100, "message: "),
        ("[" * 100_000, "message: "),
    ],
)
def test_what_does_not_begin_a_simulation_is_refused_and_the_engine_served(
    cli, endpoint, tmp_path, text, said
):
    def stranger_and_engine(engine):
        with Engine(endpoint) as stranger:
            assert said in stranger.say(text).decode()
        whole_simulation(engine)

    result = served(cli, endpoint, stranger_and_engine, "easy", "-o", tmp_path / "run")
    assert result.exit_code == 0
    assert "refused: " in result.err
    assert said in result.err
    assert summary(result.out)["simulation ended"] == "yes"


def test_a_second_engine_does_not_mix_in(cli, endpoint, tmp_path):
    def engines(engine):
        engine.begin(4)
        for _ in range(2):
            with Engine(endpoint) as other:
                assert other.say('{"now":9,"events":[]}').startswith(b"refused: ")
        engine.tell(1.0, ("SIMULATION_ENDS", {}))

    result = served(cli, endpoint, engines, "easy", "-q", "-o", tmp_path / "run")
    assert result.exit_code == 0
    assert result.err.splitlines() == [
        "refused: another engine, or something else; one engine at a time is served"
    ]


def test_unknown_events_are_ignored_and_told_once(cli, endpoint, tmp_path):
    def engine_says(engine):
        engine.begin(4)
        for now in (1.0, 2.0):
            assert engine.tell(now, ("HOST_ON_FIRE", {"host": 3}), ("REQUESTED_CALL", {})) == []
        assert engine.tell(3.0, ("NOTIFY", {"type": "anything", "more": [1]})) == []
        engine.tell(4.0, ("SIMULATION_ENDS", {}))

    result = served(cli, endpoint, engine_says, "easy", "-o", tmp_path / "run")
    assert result.exit_code == 0
    assert result.err.count("HOST_ON_FIRE") == 1
    assert "ignored: events of unknown type 'HOST_ON_FIRE' (first at 1 s)" in result.err


def test_a_message_that_is_too_long_is_not_read(cli, endpoint, tmp_path):
    def engine_says(engine):
        engine.begin(4)
        engine.socket.send(b" " * 5000)
        time.sleep(0.5)

    result = served(
        cli, endpoint, engine_says, "easy", "-o", tmp_path / "run", "--max-message-bytes", 4000
    )
    assert result.exit_code == 3
    assert "sends more than 4000 bytes" in result.err


def test_a_first_message_that_is_too_long_is_not_read(cli, endpoint, tmp_path):
    def stranger_and_engine(engine):
        with Engine(endpoint) as stranger:
            stranger.socket.send(b" " * 5000)
            time.sleep(0.3)  # for the connection to be made, and closed by the other side
        whole_simulation(engine)

    given = ("easy", "-q", "-o", tmp_path / "run", "--max-message-bytes", 4000)
    result = served(cli, endpoint, stranger_and_engine, *given)
    assert result.exit_code == 0


# Engines that leave


def test_an_engine_that_leaves_is_noticed_without_a_timeout(cli, endpoint, tmp_path):
    def engine_leaves():
        with Engine(endpoint) as engine:
            engine.begin(4)
            engine.submit(7.0, "1", 1)

    with in_thread(engine_leaves):
        result = cli("serve", "easy", "--socket", endpoint, "--out", tmp_path / "run")
    assert result.exit_code == 3
    assert "the engine has closed the connection" in result.err
    assert "7.000000 s into the simulation" in result.err
    assert summary(result.out)["simulation ended"] == "no"
    assert qos(tmp_path / "run")["w0!1"]["decision"] == "accepted"


def test_a_silent_engine_is_given_up(cli, endpoint, tmp_path):
    def engine_waits():
        with Engine(endpoint) as engine:
            engine.begin(4)
            time.sleep(1)

    with in_thread(engine_waits):
        result = cli(
            *("serve", "easy", "--socket", endpoint, "-o", tmp_path / "run", "--timeout", 0.3)
        )
    assert result.exit_code == 3
    assert "the engine has said nothing for 0.3 s" in result.err
    assert qos(tmp_path / "run") == {}


def test_no_engine_at_all(cli, endpoint, tmp_path):
    result = cli("serve", "easy", "--socket", endpoint, "-o", tmp_path / "run", "--timeout", 0.1)
    assert result.exit_code == 3
    assert "no engine has come" in result.err
    assert not list(tmp_path.glob("*.csv"))


def test_a_loop_goes_on_after_engines_that_fail(cli, endpoint, tmp_path):
    def engines():
        plays = (whole_simulation, leaves, talks_nonsense, whole_simulation)
        for play in plays:
            with Engine(endpoint) as engine:
                play(engine)

    def leaves(engine):
        engine.begin(4)

    def talks_nonsense(engine):
        engine.begin(4)
        engine.say("nonsense")

    with in_thread(engines):
        result = cli(
            *("serve", "easy", "--socket", endpoint, "--loop"),
            *("--timeout", 3, "-o", tmp_path / "run"),
        )
    assert result.exit_code == 3
    assert result.err.count("error:") == 2
    assert [len(qos(tmp_path / f"run{n}")) for n in ("", "-2", "-3", "-4")] == [2, 0, 0, 2]
    assert (tmp_path / "run_qos.csv").read_text() == (tmp_path / "run-4_qos.csv").read_text()


# Signals


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_signals_save_what_was_decided(tmp_path, number, code, said):
    process = subprocess.Popen(
        [*MAIN, "serve", "easy", "--socket", "tcp://127.0.0.1:*", "--out", tmp_path / "run"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        while "listens" not in line:  # After a word about compiling.
            assert line, "the command has ended"
            line = process.stderr.readline()
        endpoint = line.split()[-1]
        with Engine(endpoint) as engine:
            engine.begin(4)
            engine.submit(1.0, "1", 4)
            process.send_signal(number)
            out, err = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, err
    assert f"qops-batsim: error: {said}\n" in err
    assert summary(out)["simulation ended"] == "no"
    assert qos(tmp_path / "run")["w0!1"]["decision"] == "accepted"


# Engines that lack what a scheduler needs, and schedulers that fail

KILLS = ("fqops", "--set", "kill_and_restart=true")
DYNAMIC = {"dynamic_jobs_enabled": True, "dynamic_jobs_acknowledged": True}


def refused_beginning(engine, sharing=False, properties=None, **config):
    """Begin a simulation, to which the answer must be a word and no message."""
    data = begins(4, **config) | {"allow_compute_sharing": sharing}
    data["compute_resources"][2]["properties"] = properties or {}
    with pytest.raises(json.JSONDecodeError):
        engine.tell(0.0, ("SIMULATION_BEGINS", data))


@pytest.mark.parametrize(
    ("arguments", "config", "said"),
    [
        (
            KILLS,
            {"profile_reuse_enabled": False},
            "scheduler 'fqops': kill_and_restart is on, but the engine was not started with "
            "--enable-dynamic-jobs --enable-profile-reuse --acknowledge-dynamic-jobs",
        ),
        (
            KILLS,
            {**DYNAMIC, "profile_reuse_enabled": False},
            "but the engine was not started with --enable-profile-reuse\n",
        ),
        (
            ("aroma",),
            {},
            "(stops is 8), but the engine was not started with --enable-compute-sharing "
            "--enable-dynamic-jobs --acknowledge-dynamic-jobs\n",
        ),
        (("aroma",), DYNAMIC, "was not started with --enable-compute-sharing\n"),
        (
            ("aroma", "--set", "stops=0"),
            {},
            "was not started with --enable-compute-sharing\n",
        ),
        (
            ("aroma",),
            {"sharing": True},
            "was not started with --enable-dynamic-jobs --acknowledge-dynamic-jobs\n",
        ),
        (
            (*KILLS, "--any-engine"),
            {"profile_reuse_enabled": False},
            "kill_and_restart is on, but the engine was not started with --enable-dynamic-jobs ",
        ),
        (
            ("easy", "--any-engine"),
            {"properties": {"memory": "16GiB", "cores": "4"}},
            "has amounts that jobs share, but the engine was not started with "
            "--enable-compute-sharing\n",
        ),
        (
            ("easy", "--any-engine"),
            {"redis_enabled": True},
            "the engine was started with --enable-redis, so its messages have no descriptions of",
        ),
    ],
)
def test_an_engine_without_what_the_scheduler_needs_is_refused(
    cli, endpoint, tmp_path, arguments, config, said
):
    result = served(
        *(cli, endpoint, lambda engine: refused_beginning(engine, **config)),
        *(*arguments, "-q", "-o", tmp_path / "run"),
    )
    assert (result.exit_code, result.out) == (2, "")
    assert said in result.err
    assert result.err.count("\n") == 1
    assert not list(tmp_path.glob("*.csv"))


@pytest.mark.parametrize(
    ("arguments", "config"),
    [
        (KILLS, DYNAMIC | {"profile_reuse_enabled": True}),
        (KILLS, {"dynamic_jobs_enabled": True, "profile_reuse_enabled": True}),
        (KILLS, DYNAMIC),  # Batsim 3.1 does not tell whether profiles can be used again.
        (("fqops",), {}),
        (("aroma", "--any-engine"), {}),
    ],
)
def test_an_engine_with_enough_is_served(cli, endpoint, tmp_path, arguments, config):
    def engine_says(engine):
        engine.begin(4, **config)
        engine.tell(1.0, ("SIMULATION_ENDS", {}))

    result = served(cli, endpoint, engine_says, *arguments, "-q", "-o", tmp_path / "run")
    assert (result.exit_code, result.err) == (0, "")


FAILING = """
from qops_batsim import Easy
from qops_batsim.errors import SimulationError


class Fails(Easy):
    def schedule(self):
        {what}


class Misspelt(Easy):
    def schedul(self):
        pass
"""


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("raise KeyError('mine')", "KeyError: 'mine'"),
        ("raise SimulationError('mine')", "mine"),
        ("raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_a_scheduler_that_fails_is_one_error_and_ends_the_engine(
    cli, endpoint, tmp_path, what, said
):
    (tmp_path / "own.py").write_text(FAILING.format(what=what))
    result = served(
        *(cli, endpoint, refused_beginning, f"{tmp_path}/own.py:Fails"),
        *("-q", "-o", tmp_path / "run"),
    )
    assert result.exit_code == 2
    assert result.err.splitlines()[-1].startswith(f"qops-batsim: error: {said}")
    assert result.err.count("error: ") == 1
    assert "qops_batsim/" not in result.err


def test_a_loop_goes_on_after_any_crash(cli, endpoint, tmp_path, monkeypatch):
    crashes = iter([MemoryError("much"), RecursionError(), ZeroDivisionError("of ours")])

    def engines():
        for _ in range(3):
            with Engine(endpoint) as engine:
                refused_beginning(engine)
        with Engine(endpoint) as engine:
            engine.begin(4)
            engine.tell(1.0, ("SIMULATION_ENDS", {}))

    def begin(self, system, begin=SchedulerModule.begin):
        if system.hosts:
            for crash in crashes:
                raise crash
        begin(self, system)

    monkeypatch.setattr(SchedulerModule, "begin", begin)
    with in_thread(engines):
        result = cli(
            *("serve", "easy", "--socket", endpoint, "--loop", "-q"),
            *("--timeout", 1, "-o", tmp_path / "run"),
        )
    assert result.exit_code == 1
    assert result.err.count("Traceback") == 3
    assert qos(tmp_path / "run") == {}


def test_a_wrong_interface_is_refused_before_listening(cli, endpoint, tmp_path):
    (tmp_path / "own.py").write_text(FAILING.format(what="pass"))
    result = cli("serve", f"{tmp_path}/own.py:Misspelt", "--socket", endpoint, "--timeout", 0.1)
    assert result.exit_code == 2
    assert "Misspelt.schedul is called by nothing; did you mean 'schedule'" in result.err
    assert "listens" not in result.err


def test_a_terminated_command_answers_what_comes_next(tmp_path):
    endpoint = f"ipc://{tmp_path}/socket"
    process = subprocess.Popen(
        [*MAIN, "serve", "easy", "--socket", endpoint, "--out", tmp_path / "run"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with Engine(endpoint) as engine:
            engine.begin(4)
            process.send_signal(signal.SIGTERM)
            assert engine.say('{"now":1,"events":[]}') == b"qops-batsim serve: interrupted"
            process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 143
