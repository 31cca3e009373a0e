from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest

from qops_batsim import InputError, read_platform, read_workload
from qops_batsim.engine import EngineOptions, read_external_events
from qops_batsim.file_set import run_files
from qops_batsim.platform import Host, Platform, make_cluster
from qops_batsim.protocol import ModuleDriver, make_scheduler
from qops_batsim.running.installation import Batsim
from qops_batsim.running.launch import (
    BatsimError,
    check_machine,
    drive_batsim,
    write_batsim_run,
)
from qops_batsim.running.releases import batsim_arguments
from support.fake_batsim import running, write_fake, write_player
from support.scripted_module import ScriptedModule

WORKLOAD = {
    "nb_res": 4,
    "jobs": [{"id": "1", "subtime": 0, "res": 2, "profile": "p", "walltime": 20}],
    "profiles": {"p": {"type": "delay", "delay": 10}},
}


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(WORKLOAD))
    return path


@pytest.fixture
def launch(tmp_path, workload, monkeypatch):
    """Run a body of a fake batsim; afterwards none of its processes may be left."""
    pids = tmp_path / "pids"
    pids.touch()
    monkeypatch.setenv("FAKE_BATSIM_PIDS", str(pids))

    def run(body, *, module=None, timeout=240.0, prefix=None, publish=None, **options):
        path = write_fake(tmp_path / "batsim", body)
        options = {"workload": workload, "platform": make_cluster(4), **options}
        with run_files(prefix or tmp_path / "out" / "run") as files:
            done = drive_batsim(
                Batsim(path, "v4.2.1"),
                ModuleDriver(module or make_scheduler("fcfs")),
                files=files,
                timeout=timeout,
                **options,
            )
            return done, publish(done, files) if publish else files.publish_alone()

    yield run
    assert running(pids) == []
    out = tmp_path / "out"
    assert [path for path in out.rglob(".*") if out.is_dir()] == []


END = """
ask(socket, message("SIMULATION_ENDS", {}, 1.0))
"""
FILES = """
for kind in ("jobs", "schedule"):
    with open(option("-e") + f"_{kind}.csv", "w") as stream:
        stream.write(kind)
"""
GOOD = "socket = connect()\nask(socket, begins())\n" + END + FILES


def test_a_simulation_that_ends_well(launch, tmp_path):
    run, paths = launch(GOOD)
    assert (run.hosts, run.jobs_ended) == (4, 0)
    assert paths == [tmp_path / "out" / "run_jobs.csv", tmp_path / "out" / "run_schedule.csv"]
    assert paths[0].read_text() == "jobs"


@pytest.mark.parametrize("name", ["delays_fcfs", "delays_fcfs_nonet"])
def test_a_recorded_session_gets_the_recorded_decisions(name, shared, tmp_path):
    directory = shared / "batsim"
    (case,) = [
        case for case in json.loads((directory / "cases.json").read_text()) if case["name"] == name
    ]
    recorded, answers = directory / "recorded" / name, tmp_path / "answers"
    driver = ModuleDriver(make_scheduler("fcfs"))
    with run_files(tmp_path / "run") as files:
        run = drive_batsim(
            Batsim(write_player(tmp_path / "batsim", recorded, answers), "v4.2.1"),
            driver,
            workload=directory / case["workloads"][0],
            platform=directory / case["platform"],
            files=files,
            timeout=240,
        )
        paths = files.publish_alone()
    assert (run.hosts, run.jobs_ended) == (4, 10)
    assert [path.name for path in paths] == [
        "run_jobs.csv",
        "run_machine_states.csv",
        "run_schedule.csv",
    ]
    transcript = Path(f"{recorded}.transcript.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in transcript]
    expected = [executions(record["raw"]) for record in records if record["from"] == "sched"]
    assert [executions(line) for line in answers.read_text().splitlines()] == expected


def executions(text):
    return [
        (event["data"]["job_id"], event["data"]["alloc"])
        for event in json.loads(text)["events"]
        if event["type"] == "EXECUTE_JOB"
    ]


def test_what_batsim_is_started_with(launch, workload, tmp_path):
    seen = tmp_path / "seen.json"
    lines = []
    launch(
        f"""
import stat
seen = {{"arguments": arguments, "workload": open(option("-w")).read()}}
json.dump(seen, open({str(seen)!r}, "w"))
print("a line")
"""
        + GOOD,
        options=EngineOptions(hosts=3, compute_sharing=True),
        log_level="quiet",
        on_log_line=lines.append,
    )
    told = json.loads(seen.read_text())
    arguments = told["arguments"]
    assert arguments[arguments.index("--mmax") + 1] == "3"
    assert arguments[arguments.index("-v") + 1] == "quiet"
    assert "--enable-compute-sharing" in arguments
    assert arguments[arguments.index("-w") + 1] == str(workload)
    assert arguments[arguments.index("-s") + 1].startswith("tcp://127.0.0.1:")
    assert told["workload"] == workload.read_text()
    assert lines == ["a line"]


def test_compressed_inputs_are_unpacked_and_platforms_written(launch, workload, tmp_path):
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(workload.read_bytes()))
    copies = tmp_path / "copies"
    copies.mkdir()
    body = f"""
for name in ("-w", "-p"):
    shutil.copy(option(name), {str(copies)!r})
"""
    launch(body + GOOD, workload=read_workload(packed))
    assert read_workload(copies / "workload.json").jobs == read_workload(packed).jobs
    launch(body + GOOD, workload=packed)
    assert (copies / "workload.json").read_text() == workload.read_text()
    assert len(read_platform(copies / "platform.xml").compute_hosts) == 4
    assert read_workload(copies / "workload.json").processors == 4


def test_flags_of_all_options():
    assert batsim_arguments(EngineOptions()) == ["--disable-schedule-tracing"]
    options = EngineOptions(
        storage_sharing=False,
        dynamic_jobs=True,
        profile_reuse=True,
        forward_profiles=True,
        energy=True,
        sched_config='{"a": 1}',
    )
    assert batsim_arguments(options, "debug")[1:] == [
        *("-v", "debug", "--sched-cfg", '{"a": 1}', "--disable-storage-sharing"),
        *("--enable-dynamic-jobs", "--acknowledge-dynamic-jobs", "--enable-profile-reuse"),
        *("--forward-profiles-on-submission", "--energy"),
    ]
    quiet_jobs = EngineOptions(dynamic_jobs=True, acknowledge_dynamic_jobs=False)
    assert "--acknowledge-dynamic-jobs" not in batsim_arguments(quiet_jobs)
    with pytest.raises(InputError, match="unknown log level 'quite'; did you mean 'quiet'"):
        batsim_arguments(EngineOptions(), "quite")


def test_external_events_are_given_to_batsim(launch, tmp_path):
    path, seen = tmp_path / "events.txt", tmp_path / "seen.txt"
    path.write_text(
        '{"timestamp": 3, "type": "storm", "force": 9}\n\n'
        '{"timestamp": 1, "type": "machine_unavailable", "resources": "0 2", "x": 1}\n'
    )
    events = read_external_events(path, forward_unknown=True)
    body = f"""
assert "--forward-unknown-events" in arguments
shutil.copy(option("--events"), {str(seen)!r})
"""
    options = EngineOptions(external_events=events, forward_unknown_events=True)
    launch(body + GOOD, options=options)
    assert read_external_events(seen, forward_unknown=True) == events
    assert [json.loads(line) for line in seen.read_text().splitlines()] == [
        {"timestamp": 1, "type": "machine_unavailable", "resources": "0 2", "x": 1},
        {"timestamp": 3, "type": "storm", "force": 9},
    ]


# What can go wrong with Batsim


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            "print('Platform file cannot be read.'); sys.exit(3)",
            3,
            "batsim failed before its first message with exit code 3: Platform file cannot be",
        ),
        ("sys.exit(7)", 7, "with exit code 7, and it printed nothing"),
        ("pass", 2, "batsim ended before its first message, before the simulation did"),
        (
            "ask(connect(), begins()); print('[1.0] [root/CRITICAL] Invalid'); print('at main');"
            "sys.stdout.flush(); os.abort()",
            134,
            r"batsim failed after 0.000000 s with exit code 134: \[1.0\] \[root/CRITICAL\] Invalid",
        ),
        (
            "ask(connect(), begins()); print('Oops! Deadlock detected')",
            2,
            "batsim ended after 0.000000 s, before the simulation did: Oops! Deadlock detected",
        ),
        (
            "os.write(1, bytes(range(256)) * 100); os.kill(os.getpid(), signal.SIGKILL)",
            137,
            "with exit code 137: ",
        ),
        (
            "os.write(2, b'rubbish'); ask(connect(), b'\\xff\\x00 rubbish')",
            2,
            "batsim sent a wrong message: .*a message of Batsim's protocol",
        ),
        (
            "ask(connect(), message('NO_SUCH', {}))",
            2,
            "batsim sent a wrong message at 0 s, event 0: unknown type 'NO_SUCH'",
        ),
        (GOOD + "sys.exit(5)", 5, "batsim failed after the simulation's end with exit code 5"),
        (
            "socket = connect(); ask(socket, begins())" + END,
            2,
            "batsim ended well, but wrote no _jobs.csv",
        ),
    ],
)
def test_failures_are_one_clear_line(launch, tmp_path, body, code, message):
    with pytest.raises(BatsimError, match=message) as failure:
        launch(body)
    assert failure.value.exit_code == code
    assert str(failure.value).isprintable()
    assert list((tmp_path / "out").iterdir()) == []


def test_waiting_for_a_first_message_has_an_end(launch):
    message = r"batsim has said nothing for 0.3 s \(before its first message\)"
    with pytest.raises(BatsimError, match=message) as failure:
        launch("time.sleep(60)", timeout=0.3)
    assert failure.value.exit_code == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "ask(connect(), begins()); time.sleep(60)",
            r"batsim has (closed the connection .*|said nothing for 4.5 s) \(after 0.000000 s\)",
        ),
        (
            "socket = connect(); ask(socket, begins()); time.sleep(60)",
            r"batsim has said nothing for 4.5 s \(after 0.000000 s\)",
        ),
        (GOOD + "time.sleep(60)", "batsim still runs 4.5 s after the simulation's end"),
    ],
)
def test_waiting_has_an_end(launch, body, message):
    with pytest.raises(BatsimError, match=message) as failure:
        launch(body, timeout=4.5)
    assert failure.value.exit_code == 2


def test_its_death_is_noticed_long_before_the_timeout(launch):
    began = time.monotonic()
    with pytest.raises(BatsimError):
        launch("time.sleep(0.2); sys.exit(1)", timeout=1000.0)
    assert time.monotonic() - began < 100


def test_its_children_end_with_it(launch):
    body = """
child = subprocess.Popen(["sleep", "60"])
with open(os.environ["FAKE_BATSIM_PIDS"], "a") as stream:
    stream.write(f"{child.pid}\\n")
sys.exit(1)
"""
    with pytest.raises(BatsimError, match="exit code 1"):
        launch(body)
    time.sleep(0.1)


class Broken(ScriptedModule):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def decide(self, now):
        raise self.error


@pytest.mark.parametrize(
    "error", [RuntimeError("a defect"), InputError("bad"), KeyboardInterrupt()]
)
def test_batsim_ends_when_the_module_fails(launch, error):
    with pytest.raises(type(error)):
        launch("ask(connect(), begins()); time.sleep(60)", module=Broken(error))


def test_a_failed_run_leaves_an_earlier_result_alone(launch, tmp_path):
    launch(GOOD)
    with pytest.raises(BatsimError):
        launch(FILES.replace("write(kind)", "write('partial')") + "sys.exit(1)")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "run_jobs.csv",
        "run_schedule.csv",
    ]
    assert (tmp_path / "out" / "run_jobs.csv").read_text() == "jobs"


def test_the_prefix_is_put_in_front_as_it_is(launch, tmp_path):
    _, paths = launch(GOOD, prefix=f"{tmp_path}/out/")
    assert [path.name for path in paths] == ["_jobs.csv", "_schedule.csv"]


def test_inputs_and_outputs_that_cannot_be_used(launch, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file/run_.*: cannot be written"):
        launch(GOOD, prefix=tmp_path / "file" / "run")
    with pytest.raises(InputError, match="nothing.json: no such file"):
        launch(GOOD, workload=tmp_path / "nothing.json")
    (tmp_path / "out" / "taken_jobs.csv").mkdir(parents=True)
    with pytest.raises(InputError, match="taken_jobs.csv: is a directory"):
        launch(GOOD, prefix=tmp_path / "out" / "taken")
    with pytest.raises(InputError, match="/dev/null: .*a regular file is expected"):
        launch(GOOD, workload="/dev/null")


def test_the_run_says_how_it_was_made(launch, tmp_path):
    module = make_scheduler("fcfs")

    def publish(run, files):
        batsim = Batsim(tmp_path / "batsim", "v4.2.1")
        told = {"scheduler": "fcfs", "module": module, "workload": "w.json", "platform": None}
        return write_batsim_run(run, batsim, files, **told)

    _, paths = launch(GOOD, module=module, publish=publish)
    names = ["run_jobs.csv", "run_schedule.csv", "run_qos.csv", "run_run.json"]
    assert [path.name for path in paths] == names
    told = json.loads(paths[-1].read_text())
    assert told["engine"] == "batsim"
    assert told["batsim_version"] == "v4.2.1"
    assert (told["scheduler"], told["hosts"], told["compute_sharing"]) == ("fcfs", 4, False)


# What can go wrong before


def test_machines_are_checked_beforehand(workload):
    jobs = read_workload(workload)
    check_machine(jobs, make_cluster(4), EngineOptions(), allow_smaller_machine=False)
    three = EngineOptions(hosts=3)
    check_machine(jobs, make_cluster(4), three, allow_smaller_machine=True)
    with pytest.raises(InputError, match="for 4 processors .* has only 3 hosts to use"):
        check_machine(jobs, make_cluster(4), three, allow_smaller_machine=False)
    with pytest.raises(InputError, match="9 hosts were asked for; from 1 to 4 are accepted"):
        check_machine(jobs, make_cluster(4), EngineOptions(hosts=9), allow_smaller_machine=False)
    headless = Platform(compute_hosts=(Host(name="a", speeds=(1.0,)),))
    with pytest.raises(InputError, match="no master; for Batsim"):
        check_machine(jobs, headless, EngineOptions(), allow_smaller_machine=True)
