from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qops_batsim.cli.engine_install import MARK
from qops_batsim.platform import make_cluster, write_platform
from support.decision_process import (
    LIMIT_MS,
    decision_process,
    recorded_process,
    scheduler_process,
)
from support.fake_redis import fake_redis
from support.recordings import Case, cases, close

LIMIT = LIMIT_MS / 1000

# Differ between Batsim's row of totals and ours by design.
WALL_CLOCK_COLUMNS = ("batsim_version", "scheduling_time", "simulation_time")


# Recorded decisions


def command_line(case: Case, endpoint: str, prefix: Path) -> list[str]:
    arguments = ["-p", str(case.directory / case.platform), "-s", endpoint, "-e", str(prefix)]
    for workload in case.workloads:
        arguments += ["-w", str(case.directory / workload)]
    switches = {
        "profiles-forwarded-on-submission": "--forward-profiles-on-submission",
        "dynamic-jobs-enabled": "--enable-dynamic-jobs",
        "dynamic-jobs-acknowledged": "--acknowledge-dynamic-jobs",
        "profile-reuse-enabled": "--enable-profile-reuse",
        "forward-unknown-events": "--forward-unknown-events",
    }
    arguments += [option for name, option in switches.items() if case.config.get(name)]
    arguments += ["--enable-compute-sharing"] if case.compute_sharing else []
    arguments += (
        ["--sched-cfg", case.config["sched-config"]] if "sched-config" in case.config else []
    )
    return [*arguments, "--mmax", str(case.hosts), "--timeout", str(LIMIT), "-q"]


def totals(path: Path) -> dict[str, str]:
    (row,) = csv.DictReader(path.open())
    return {name: value for name, value in row.items() if name not in WALL_CLOCK_COLUMNS}


@pytest.mark.parametrize(
    "name",
    [
        "ties_nonet",
        "dyn",
        "dyn_noack",
        "schedcfg",
        "two_workloads",
        "kill_nonet",
        "share_ok",
        "forward_nonet",
        "metadata_nonet",
        "batsched_reject",
        "nowplus_nonet",
        "empty",
    ],
)
def test_recorded_decisions_give_the_recorded_files(cli, shared, tmp_path, name):
    (case,) = [case for case in cases(shared) if case.name == name]
    first: list[bytes] = []
    answer = recorded_process(case)

    def listening(text: bytes):
        first.append(text)
        return answer(text)

    with decision_process(listening) as endpoint:
        result = cli("engine", *command_line(case, endpoint, tmp_path / "x" / "run"))
    assert (result.exit_code, result.out, result.err) == (0, "", "")
    for kind in ("jobs", "machine_states"):
        assert (tmp_path / "x" / f"run_{kind}.csv").read_text() == case.output(kind), kind
    theirs = tmp_path / "theirs.csv"
    theirs.write_text(case.output("schedule"))
    assert totals(tmp_path / "x" / "run_schedule.csv") == totals(theirs)
    beginning, recorded = json.loads(first[0]), json.loads(case.messages()[0]["raw"])
    for message in (beginning, recorded):
        files = message["events"][0]["data"].pop("workloads")
        assert [Path(file).name for file in files.values()] == [
            Path(file).name for file in case.workloads
        ]
    assert close(beginning, recorded)


@pytest.mark.parametrize(
    "name", ["err_busy", "err_ts", "err_badtype", "err_exec_twice", "cml_past"]
)
def test_what_batsim_aborts_is_one_error_and_no_file(cli, shared, tmp_path, name):
    (case,) = [case for case in cases(shared) if case.name == name]
    with decision_process(recorded_process(case)) as endpoint:
        result = cli("engine", *command_line(case, endpoint, tmp_path / "run"))
    assert result.exit_code == 2
    assert result.err.startswith("qops-batsim: error: at ")
    assert result.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_deadlock_is_an_error(cli, machine, tmp_path):
    (tmp_path / "run_jobs.csv").write_text("an earlier run")
    with decision_process(lambda text: b'{"now":%d,"events":[]}' % json.loads(text)["now"]) as here:
        result = cli("engine", *machine, "-s", here, "-e", tmp_path / "run", "-q")
    assert result.exit_code == 2
    assert "deadlock: 1 jobs were submitted and neither started nor rejected" in result.err
    # What ended is written, as Batsim does, but beside the run that was there: here nothing did.
    assert len((tmp_path / "run_deadlock_jobs.csv").read_text().splitlines()) == 1
    assert (tmp_path / "run_deadlock_schedule.csv").exists()
    assert (tmp_path / "run_jobs.csv").read_text() == "an earlier run"
    assert not (tmp_path / "run_schedule.csv").exists()


@pytest.mark.parametrize(
    ("watts", "joules"),
    [
        ('<prop id="wattage_per_state" value="100:100:200"/>', 2000),
        ('<prop id="wattage_per_state" value="100:200"/>', 2000),
        ('<prop id="watt_per_state" value="100:200"/>', None),
        ("", None),
    ],
)
def test_energy_is_counted_or_the_platform_refused(cli, tmp_path, watts, joules):
    one = f'coordinates="0 0 0" speed="100Mf">{watts}</host>'
    hosts = f'<host id="master_host" {one}<host id="host0" {one}'
    zone = f'<zone id="AS0" routing="Vivaldi">{hosts}</zone>'
    (tmp_path / "p.xml").write_text(f'<platform version="4.1">{zone}</platform>')
    profiles = {"p": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}
    jobs = [{"id": "1", "subtime": 0, "walltime": 100, "res": 1, "profile": "p"}]
    content = {"nb_res": 1, "jobs": jobs, "profiles": profiles}
    (tmp_path / "w.json").write_text(json.dumps(content))
    inputs = ["-p", tmp_path / "p.xml", "-w", tmp_path / "w.json", "-e", tmp_path / "run"]
    result = cli("engine", "-E", *inputs, "--no-sched", "-q")
    if joules is None:
        assert result.exit_code == 2
        assert "wattage_per_state" in result.err
        assert not list(tmp_path.glob("run*"))
    else:
        last = (tmp_path / "run_consumed_energy.csv").read_text().splitlines()[-1]
        assert (result.exit_code, float(last.split(",")[1])) == (0, joules)


# Options that change what is told or written


def begins(cli, *arguments):
    """Return SIMULATION_BEGINS as told under these options."""
    told: list[bytes] = []

    def leave(text: bytes) -> None:
        told.append(text)

    with decision_process(leave) as endpoint:
        result = cli("engine", *arguments, "-s", endpoint, "-q", "--timeout", LIMIT)
    assert result.exit_code == 2
    assert "has closed the connection" in result.err
    return json.loads(told[0])["events"][0]["data"]


def test_options_reach_the_decision_process(cli, machine, inputs, tmp_path):
    events = tmp_path / "events.txt"
    events.write_text((inputs / "ev.txt").read_text().replace('"3"', '"2"'))  # a host there is
    told = begins(
        *(cli, *machine, "--mmax", 3, "--enable-compute-sharing", "--disable-storage-sharing"),
        *("--enable-dynamic-jobs", "--acknowledge-dynamic-jobs", "--enable-profile-reuse"),
        *("--forward-profiles-on-submission", "--sched-cfg", "a b"),
        *("--events", events, "--forward-unknown-events"),
    )
    assert told["nb_compute_resources"] == 3
    assert told["allow_compute_sharing"] is True
    assert told["allow_storage_sharing"] is False
    assert told["workloads"] == {"w0": str(inputs / "one.json")}
    config = told["config"]
    assert config["sched-config"] == "a b"
    for name in (
        *("dynamic-jobs-enabled", "dynamic-jobs-acknowledged", "profile-reuse-enabled"),
        *("profiles-forwarded-on-submission", "forward-unknown-events"),
    ):
        assert config[name] is True


FRACTIONS = (1.2345674, 1.2345676, 2.3456785)


@pytest.mark.parametrize("options", [(), ("--all-digits",)])
def test_dates_and_jobs_are_told_with_six_decimals_or_all_digits(cli, tmp_path, options):
    platform = tmp_path / "p.xml"
    write_platform(make_cluster(1), platform)
    profiles = {f"p{n}": {"type": "delay", "delay": x} for n, x in enumerate(FRACTIONS)}
    jobs = [
        {"id": str(n), "subtime": x, "res": 1, "walltime": 2 * x, "profile": f"p{n}"}
        for n, x in enumerate(FRACTIONS)
    ]
    workload = tmp_path / "w.json"
    workload.write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": profiles}))
    told: list[str] = []
    answer = scheduler_process("fcfs")

    def noting(text: bytes):
        told.append(text.decode().replace(str(workload), ""))
        return answer(text)

    with decision_process(noting) as here:
        given = ("-p", platform, "-w", workload, "-s", here, "-e", tmp_path / "run", "-q")
        result = cli("engine", *given, *options, "--timeout", LIMIT)
    assert (result.exit_code, result.err) == (0, "")
    numbers = set(re.findall(r"\d+\.\d{3,}", "".join(told)))
    if options:
        assert numbers >= {str(each) for x in FRACTIONS for each in (x, 2 * x)}
    else:
        assert numbers >= {f"{each:.6f}" for x in FRACTIONS for each in (x, 2 * x)}
        assert max(map(len, numbers)) == len("1.234567")


def test_the_configuration_may_come_from_a_file(cli, machine, tmp_path):
    path = tmp_path / "cfg"
    path.write_text('{"reserve": "hosts"}\n')
    told = begins(cli, *machine, "--sched-cfg-file", path)
    assert told["config"]["sched-config"] == '{"reserve": "hosts"}\n'


@pytest.mark.parametrize(
    ("arguments", "hosts"),
    [
        ([], 4),
        (["--mmax", 0], 4),
        (["--mmax", 2], 2),
        (["--mmax-workload"], 3),
        (["--mmax-workload", "--mmax", 2], 2),
        (["--mmax-workload", "--mmax", 4], 3),
    ],
)
def test_the_number_of_hosts(cli, inputs, tmp_path, arguments, hosts):
    workload = json.loads((inputs / "one.json").read_text())
    files = []
    for processors in (3, 2):
        file = tmp_path / f"w{processors}.json"
        file.write_text(json.dumps({**workload, "nb_res": processors}))
        files += ["-w", file]
    told = begins(cli, "-p", inputs / "p4_nonet.xml", *files, *arguments)
    assert told["nb_resources"] == hosts


def test_the_master_host_runs_no_jobs(cli, machine):
    told = begins(cli, *machine, "-m", "host1")
    assert "host1" not in [host["name"] for host in told["compute_resources"]]


def served(cli, machine, *arguments):
    with decision_process(scheduler_process("fcfs")) as endpoint:
        return cli("engine", *machine, "-s", endpoint, "--timeout", LIMIT, *arguments)


@pytest.mark.parametrize(
    ("option", "missing"),
    [
        ([], None),
        (["--disable-schedule-tracing"], None),
        (["--disable-machine-state-tracing"], "run_machine_states.csv"),
    ],
)
def test_which_files_are_written(cli, machine, tmp_path, option, missing):
    assert served(cli, machine, "-e", tmp_path / "run", *option).exit_code == 0
    names = {"run_jobs.csv", "run_schedule.csv", "run_machine_states.csv"}
    assert {path.name for path in tmp_path.iterdir()} == names - {missing}


def test_the_default_prefix_is_batsims(cli, machine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert served(cli, machine).exit_code == 0
    assert (tmp_path / "out_jobs.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "lines", "traced"),
    [
        (["-q"], 0, False),
        (["-v", "quiet"], 0, False),
        (["-v", "debug", "-q"], 0, False),
        (["-v", "network-only"], 10, True),
        ([], 13, True),
        (["-v", "debug"], 13, True),
    ],
)
def test_how_much_is_said(cli, machine, tmp_path, arguments, lines, traced):
    result = served(cli, machine, "-e", tmp_path / "run", *arguments)
    assert result.exit_code == 0
    assert result.out == ""
    assert len(result.err.splitlines()) == lines
    # The form that readers of Batsim's log look for.
    sending = re.findall(r"^\[10\.000000\] \[network/INFO\] Sending '(.*)'$", result.err, re.M)
    kinds = [event["type"] for text in sending for event in json.loads(text)["events"]]
    assert kinds == (["JOB_COMPLETED", "SIMULATION_ENDS"] if traced else [])
    assert ("Received '{" in result.err) is traced


def test_jobs_described_through_redis(cli, machine, tmp_path):
    pytest.importorskip("redis", reason="the extra qops-batsim[redis] is not installed")
    answer = scheduler_process("fcfs")
    with fake_redis() as server:

        def looked_up(text: bytes):
            message = json.loads(text)
            for event in message["events"]:
                if event["type"] == "SIMULATION_BEGINS":
                    # Our scheduler must not know.
                    event["data"]["config"]["redis-enabled"] = False
                if event["type"] == "JOB_SUBMITTED":
                    (job_id,) = event["data"].values()
                    event["data"]["job"] = json.loads(server.held[f"default:job_{job_id}"])
            return answer(json.dumps(message).encode())

        with decision_process(looked_up) as endpoint:
            files = tmp_path / "redis"
            options = ["-s", endpoint, "--timeout", LIMIT, "-q", "-e", files]
            redis = ["--enable-redis", "--redis-port", server.port]
            result = cli("engine", *machine, *options, *redis)
    assert (result.exit_code, result.err) == (0, "")
    assert served(cli, machine, "-e", tmp_path / "plain").exit_code == 0
    for kind in ("jobs", "schedule", "machine_states"):
        written, plain = (tmp_path / f"{run}_{kind}.csv" for run in ("redis", "plain"))
        assert written.read_text() == plain.read_text()


# Without a decision process


def test_without_a_scheduler(cli, machine, tmp_path):
    result = cli("engine", *machine, "--no-sched", "-e", tmp_path / "run")
    assert (result.exit_code, result.out) == (0, "")
    assert result.err.splitlines()[0] == "[10.000000] job w0!1: COMPLETED_SUCCESSFULLY"
    states = (tmp_path / "run_machine_states.csv").read_text().splitlines()
    assert states[1:] == ["0,0,0,0,2,2", "10,0,0,0,4,0"]
    result = cli("engine", *machine, "--no-sched", "--events", os.devnull)
    assert result.exit_code == 2
    assert "--no-sched is given with --events" in result.err


def test_the_execution_context(cli, machine):
    """What runners of Batsim ask for before they start both sides."""
    options = [
        "--enable-redis",
        "--redis-port=7",
        "--redis-prefix=me",
        "-e",
        "a/b",
        "-s",
        "ipc://x",
    ]
    result = cli("engine", *machine, "--dump-execution-context", *options)
    assert (result.exit_code, result.err) == (0, "")
    assert result.out == (
        '{"socket_endpoint":"ipc://x","redis_enabled":true,"redis_hostname":"127.0.0.1",'
        '"redis_port":7,"redis_prefix":"me","export_prefix":"a/b","external_scheduler":true}\n'
    )
    told = json.loads(cli("engine", "--dump-exec", "--no-sched").out)
    assert (told["socket_endpoint"], told["external_scheduler"]) == (
        "tcp://localhost:28000",
        False,
    )


# As programs of their own


def run_program(*command, environment=None):
    return subprocess.run(
        [str(each) for each in command],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment,
        check=False,
    )


def test_the_module_starts_without_anything_slow():
    code = (
        "import sys\n"
        "import qops_batsim.cli.engine as engine\n"
        "import qops_batsim.engine.outputs, qops_batsim.engine.simulation\n"
        "import qops_batsim.platform.simgrid_read, qops_batsim.protocol.zeromq\n"
        "import qops_batsim.workload.batsim_json\n"
        "slow = {'typer', 'rich', 'pandas', 'matplotlib', 'asyncio'}\n"
        "print(sorted(slow & set(sys.modules)))\n"
        "sys.argv = ['batsim', '--version']\n"
        "engine.main()\n"
    )
    result = run_program(sys.executable, "-c", code)
    assert result.stdout.splitlines()[0] == "[]"
    assert result.stdout.splitlines()[1].startswith("v4.2.1 ")


def test_the_installed_engine_is_batsim_on_the_path(cli, machine, tmp_path):
    directory = tmp_path / "a b'c"
    result = cli("engine", "--install", directory / "batsim")
    assert result.exit_code == 0
    environment = {**os.environ, "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"}
    batsim = shutil.which("batsim", path=environment["PATH"])
    assert batsim == str(directory / "batsim")
    assert run_program("batsim", "--version", environment=environment).stdout.startswith("v4.2.1")
    with decision_process(scheduler_process("fcfs")) as endpoint:
        run = run_program(
            *("batsim", *machine, "-s", endpoint, "-e", tmp_path / "run", "-v", "quiet"),
            environment=environment,
        )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert (tmp_path / "run_jobs.csv").is_file()
    refused = run_program("batsim", "--sg-cfg", environment=environment)
    assert refused.returncode == 2
    assert refused.stderr == (
        "qops-batsim: error: Batsim's option --sg-cfg is not supported by the embedded engine\n"
    )


def test_the_executable_is_written_anew(cli, tmp_path):
    for _ in range(2):
        result = cli("engine", "--install", tmp_path / "batsim")
        assert (result.exit_code, result.out) == (0, f"export PATH={tmp_path}:$PATH\n")
    assert MARK in (tmp_path / "batsim").read_text()


def test_install_spares_what_is_not_ours(cli, tmp_path):
    other = tmp_path / "batsim"
    other.write_text("#!/bin/sh\nthe real one\n")
    result = cli("engine", "--install", tmp_path / "batsim")
    assert result.exit_code == 2
    assert f"{other}: the file exists, and qops-batsim has not written it" in result.err
    assert "the real one" in other.read_text()
    other.unlink()
    other.symlink_to(tmp_path / "elsewhere")
    assert cli("engine", "--install", tmp_path / "batsim").exit_code == 2
    other.unlink()
    other.mkdir()
    assert cli("engine", "--install", tmp_path / "batsim").exit_code == 2
    assert "--install: the name of one file" in cli("engine", "--install").err


def test_two_processes(cli, machine, tmp_path):
    """Our scheduler and our engine, each on its own, as a user starts them."""
    main = [sys.executable, "-c", "from qops_batsim.cli.main import main; main()"]
    endpoint = f"ipc://{tmp_path}/socket"
    both = ["-s", endpoint, "--timeout", str(LIMIT)]
    serving = subprocess.Popen([*main, "serve", "easy", *both, "-o", tmp_path / "run", "-q"])
    try:
        run = run_program(*main, "engine", *machine, *both, "-e", tmp_path / "run")
        assert (run.returncode, serving.wait(LIMIT)) == (0, 0)
    finally:
        serving.kill()
        serving.wait()
    assert "simulated 1 jobs until 10.000000 s" in run.stderr
    assert "1,w0,,,accepted" in (tmp_path / "run_qos.csv").read_text()
    assert (
        "1,w0,d10,0.000000,2,100.000000,1,COMPLETED_SUCCESSFULLY"
        in (tmp_path / "run_jobs.csv").read_text()
    )
