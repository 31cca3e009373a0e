"""A run from end to end in Python, and the same once more from its description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import (
    Conservative,
    Fcfs,
    InputError,
    Job,
    read_platform,
    read_run,
    read_workload,
    run,
    run_again,
    simulate,
)
from qops_batsim.engine import EngineOptions, format_jobs, read_external_events
from qops_batsim.errors import SimulationError
from qops_batsim.measures import Verification
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running.progress import ProgressListener
from qops_batsim.running.simulate import describe_run
from qops_batsim.schedulers.loading.plugins import run_prefix
from qops_batsim.shipped import find_input, shipped_directory

ROOT = shipped_directory("workloads").parent


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def contents(prefix: str) -> dict[str, bytes]:
    """Return the files of a run by the ends of their names."""
    start = Path(prefix).name
    files = Path(prefix).parent.glob(f"{start}_*")
    return {path.name.removeprefix(start): path.read_bytes() for path in files}


def description(prefix: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path(f"{prefix}_run.json").read_text())
    return told


def test_a_run_knows_what_it_wrote_and_how_good_it_is() -> None:
    done = run("easy", "tiny_8")
    assert repr(done) == "<Run out/easy: easy on tiny_8, 8 jobs on 4 hosts, verified>"
    assert {path.name for path in done.paths} == {path.name for path in Path("out").iterdir()}
    assert (done.violations, done.rules > 20) == ([], True)
    assert done.metrics["jobs_submitted"] == 8
    assert done.metrics["waiting_time"]["mean"] == 46.875
    assert done.simulation is not None
    assert len(done.simulation.ended) == len(done.result.jobs) == 8
    assert "<td>jobs_submitted</td><td>8</td>" in done._repr_html_()
    assert read_run(Path(done)).name == "easy"


def test_without_inputs_a_shipped_workload_shows_the_scheduler() -> None:
    assert description(run("fcfs").prefix)["workload"] == "sdsc_sp2_1000"
    assert description(run("msb").prefix)["workload"] == "sdsc_sp2_deadlines_500"


def test_objects_paths_and_names_give_the_same_schedule() -> None:
    workload, platform = (
        find_input("kth_sp2_1000", "workloads"),
        find_input("kth_sp2_100", "platforms"),
    )
    named = run("conservative", "kth_sp2_1000", "kth_sp2_100", {"reserve": "processors"}, out="a")
    module = make_scheduler(Conservative, {"reserve": "processors"})
    objects = run(module, read_workload(workload), read_platform(platform), out="b")
    paths = run(Conservative, workload, str(platform), {"reserve": "processors"}, out="c")
    for other in (objects, paths):
        there = contents(other.prefix)
        for ending, content in contents(named.prefix).items():
            assert ending == "_run.json" or there[ending] == content, ending
    for done in (named, objects, paths):
        assert description(done.prefix)["scheduler"] == "conservative"
    assert str(ROOT) not in Path("a_run.json").read_text() + Path("b_run.json").read_text()
    assert description("b")["workload"] == "kth_sp2_1000"


def test_simulate_takes_them_as_well() -> None:
    workload = read_workload(find_input("tiny_8", "workloads"))
    ends = [
        [(record.job.id, record.finish) for record in simulation.ended]
        for simulation in (
            simulate("easy", "tiny_8", None),
            simulate("easy", find_input("tiny_8", "workloads"), make_cluster(4)),
            simulate(make_scheduler("easy"), workload, None),
        )
    ]
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("easy", "tiny_9"), "tiny_9: no such file, nor one of the shipped workloads"),
        (("easy", "tiny_8", "kth"), "kth: no such file, nor one of the shipped platforms"),
        (("easy", 7), r"workload is 7 \(int\); a Workload, the path of a file"),
        (("easy", "tiny_8", 7), r"platform is 7 \(int\); a Platform, the path"),
        ((7, "tiny_8"), r"scheduler is 7 \(int\); a registered name, FILE.py:CLASS, a sub"),
        ((Fcfs(), "tiny_8", None, {"a": 1}), "options are given for a Fcfs object"),
        ((Fcfs, "tiny_8", None, {"a": 1}), "scheduler 'fcfs' has no option 'a'"),
    ],
)
def test_what_cannot_be_run_is_one_clear_error(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(*arguments)
    assert not Path("out").exists()


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InputError, match="engine 'batsin' is unknown; did you mean 'batsim'"):
        run("easy", "tiny_8", engine="batsin")


class Mine(Fcfs):
    """A scheduler that is registered nowhere."""


SCHEDULER = """
from qops_batsim.schedulers.easy import Easy


class Mine(Easy):
    summary = "EASY under another name"
"""


AWAY = """
{"timestamp": 20, "type": "machine_unavailable", "resources": "0-1"}
{"timestamp": 500, "type": "machine_available", "resources": "0-1"}
"""


def test_hosts_go_away_and_that_is_recorded() -> None:
    Path("away.txt").write_text(AWAY)
    whole, reduced = run("easy", "tiny_8"), run("easy", "tiny_8", events="away.txt", out="away")
    told = description("away")
    assert told["events"] == "away.txt"
    assert told["outages"] == [{"hosts": "0-1", "since": 20.0, "to": 500.0}]
    assert set(told["sha256"]) == {"workload", "events"}
    assert reduced.violations == []
    assert "hosts-present" in {rule.name for rule in Verification(reduced.result).rules}
    assert reduced.metrics["waiting_time"]["mean"] > whole.metrics["waiting_time"]["mean"]
    events = read_external_events("away.txt")
    direct = simulate("easy", "tiny_8", None, events=events)
    assert format_jobs(direct.ended_jobs) == Path("away_jobs.csv").read_text()
    run("easy", "tiny_8", events=events, out="object")
    assert description("object")["python_objects"] == ["events"]
    with pytest.raises(InputError, match="events were Python objects of a program"):
        run_again("object_run.json")
    Path("away.txt").write_text(AWAY.replace("0-1", "0-9"))
    with pytest.raises(InputError, match="the file of the events has changed"):
        run_again("away_run.json")
    with pytest.raises(InputError, match="names hosts 4-9, which do not exist; hosts are 0 to 3"):
        run("easy", "tiny_8", events="away.txt")


def generic(date: float, data: object) -> str:
    return json.dumps({"type": "generic", "timestamp": date, "data": data})


def test_events_of_batsim_5_are_those_of_batsim_4() -> None:
    Path("four.txt").write_text(AWAY)
    told = [json.loads(line) for line in AWAY.split("\n") if line]
    lines = [generic(each.pop("timestamp"), json.dumps(each)) for each in told]
    lines += [generic(30, "some data"), generic(40, '{"type": "of mine"}'), generic(50, "[1]")]
    Path("five.txt").write_text("\n".join(lines))
    for name in ("four", "five"):
        run("easy", "tiny_8", events=f"{name}.txt", out=name)
    assert contents("five")["_jobs.csv"] == contents("four")["_jobs.csv"]
    assert description("five")["outages"] == description("four")["outages"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (generic(1, 5), "e.txt: line 1: data is 5; a text is expected"),
        ('{"type": "mine", "timestamp": 1}', "unknown type 'mine' .known: generic, job_cancelled"),
        (generic(1, '{"type": "machine_available"}'), "line 1: resources is None; hosts such as"),
    ],
)
def test_what_run_accepts_as_an_event_is_named(line: str, message: str) -> None:
    Path("e.txt").write_text(line)
    with pytest.raises(InputError, match=message) as caught:
        run("easy", "tiny_8", events="e.txt")
    assert "--forward" not in str(caught.value)


LINK = '<link id="l" bandwidth="125MBps" latency="0s"/>'
ENDS = [f'<host_link id="{name}" up="l" down="l"/>' for name in ("master_host", "a", "b")]


@pytest.mark.parametrize(
    ("routing", "more", "free"),
    [
        ("Cluster", "", True),
        ("Cluster", '<backbone id="l" bandwidth="1MBps" latency="0s"/>', True),
        ("Cluster", LINK + ENDS[0], True),
        ("Cluster", LINK + ENDS[1], False),
        ("Cluster", LINK + "".join(ENDS), False),
        ("Vivaldi", "", True),
    ],
)
@pytest.mark.parametrize("sends", [0, 1e9])
def test_jobs_that_send_for_nothing_are_told(
    routing: str, more: str, free: bool, sends: float
) -> None:
    hosts = "".join(
        f'<host id="{name}" speed="1Mf" coordinates="1 1 0"/>' for name in ("master_host", "a", "b")
    )
    router = '<router id="r"/>' if routing == "Cluster" else ""
    zone = f'<zone id="z" routing="{routing}">{hosts}{router}{more}</zone>'
    Path("p.xml").write_text(f'<platform version="4.1">{zone}</platform>')
    profiles = {
        "s": {"type": "parallel_homogeneous", "cpu": 1, "com": sends},
        "c": {"type": "composed", "seq": ["s"]},
    }
    job = {"id": "1", "subtime": 0, "res": 2, "profile": "c"}
    Path("w.json").write_text(json.dumps({"nb_res": 2, "jobs": [job], "profiles": profiles}))
    warnings: list[str] = []

    class Listener(ProgressListener):
        def warning(self, text: str) -> None:
            warnings.append(text)

    done = run("fcfs", "w.json", "p.xml", progress=Listener())
    told = [each for each in warnings if "no link between hosts a and b of p.xml" in each]
    assert len(told) == (free and sends > 0)
    assert (done.metrics["makespan"] > 1) == bool(sends and not free)


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [
        (("easy", "kth_sp2_1000"), {}),
        (("conservative", "workloads/kth_sp2_1000.json", "kth_sp2_100"), {"hosts": 99}),
        (("fqops", "sdsc_sp2_deadlines_500", None, {"tolerance": "random", "seed": 5}), {}),
        (("aroma", "aroma_mixed", "aroma_grid"), {"compute_sharing": False}),
        (("mine.py:Mine", "own.json", Path("own.xml")), {}),
        (("easy", "tiny_8"), {"events": "away.txt"}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_run_again_gives_the_same_bytes(
    arguments: tuple[Any, ...], choices: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(SCHEDULER)
    (tmp_path / "own.json").write_bytes(find_input("tiny_8", "workloads").read_bytes())
    (tmp_path / "own.xml").write_bytes(find_input("kth_sp2_100", "platforms").read_bytes())
    (tmp_path / "away.txt").write_text(AWAY)
    first = run(*arguments, out="first", smaller_machine="hosts" in choices, **choices)
    again = run_again("first_run.json")
    assert again.prefix == "first_again"
    for ending, content in contents("first").items():
        if not ending.startswith("_again"):
            assert contents("first_again")[ending] == content, ending
    assert again.violations == first.violations == []
    assert str(tmp_path) not in Path("first_run.json").read_text()


def test_what_cannot_be_run_again_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_bytes(find_input("tiny_8", "workloads").read_bytes())
    run("easy", "own.json", out="x")
    own.write_text(own.read_text().replace("delay", "delay", 1) + "\n")
    with pytest.raises(InputError, match="x_run.json: .*the file of the workload has changed"):
        run_again("x_run.json")
    own.unlink()
    with pytest.raises(InputError, match="own.json: no such file"):
        run_again("x_run.json")
    file = tmp_path / "own.py"
    file.write_text("from qops_batsim import Easy\n\n\nclass Own(Easy):\n    pass\n")
    run("own.py:Own", "tiny_8", out="y")
    file.unlink()
    with pytest.raises(
        InputError,
        match="y_run.json: .* scheduler .own.py:Own.: own.py cannot be read: No such file",
    ):
        run_again("y_run.json")
    run(Mine, read_workload(find_input("tiny_8", "workloads")), make_cluster(4), out="y")
    message = "y_run.json: .* scheduler and workload and platform were Python objects of a program"
    with pytest.raises(InputError, match=message):
        run_again("y_run.json")
    with pytest.raises(InputError, match="no such file"):
        run_again("z_run.json")
    for text in ("{}", "[1]", "no JSON"):
        Path("z_run.json").write_text(text)
        with pytest.raises(InputError, match="z_run.json: .*the description of a run is expected"):
            run_again("z_run.json")


class Lazy(Fcfs):
    """Starts nothing after the first three jobs."""

    summary = "FCFS that gives up"

    def arrived(self, job: Job) -> None:
        if job.id in ("w0!1", "w0!2", "w0!3"):
            super().arrived(job)


def test_a_deadlock_leaves_an_earlier_run_and_the_files_of_what_ended() -> None:
    run("easy", "tiny_8", out="out/lazy")
    before = contents("out/lazy")
    message = "deadlock: 5 jobs .*; out/lazy_deadlock_jobs.csv has the jobs that ended"
    with pytest.raises(SimulationError, match=message):
        run(Lazy, "tiny_8", out="out/lazy")
    after = contents("out/lazy")
    assert {name: after[name] for name in before} == before
    assert {name.removeprefix("_deadlock") for name in after} == set(before)
    assert len(read_run("out/lazy").jobs) == 8
    assert len(read_run("out/lazy_deadlock").jobs) == 3
    assert description("out/lazy_deadlock")["scheduler"] == "Lazy"


@pytest.mark.parametrize("kind", ["maintenance", "machine_unavailable"])
def test_a_run_names_the_windows_that_were_announced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "events.txt"
    window = f'{{"timestamp": 5, "type": "{kind}", "resources": "1", "start": 10, "end": 20}}'
    path.write_text(window + "\n")
    options = EngineOptions(external_events=read_external_events(path))
    described = describe_run("fcfs", Fcfs(), "w.json", None, 4, options)
    expected = ({"hosts": "1", "since": 10, "to": 20, "announced": 5},)
    assert described.get("maintenance") == (expected if kind == "maintenance" else None)


@pytest.mark.parametrize(
    ("out", "prefix"),
    [
        (None, "out/easy"),
        ("out/", "out/easy"),
        ("a/b/", "a/b/easy"),
        ("a", "a"),
        (Path("a/"), "a"),
    ],
)
def test_a_folder_names_the_files_by_the_scheduler(out: object, prefix: str) -> None:
    assert run_prefix(out, "easy") == prefix  # type: ignore[arg-type]


def test_the_files_of_a_run_in_a_folder(tmp_path: Path) -> None:
    run("easy", "tiny_8", out=f"{tmp_path}/")
    assert (tmp_path / "easy_jobs.csv").exists()
    assert not (tmp_path / "_jobs.csv").exists()
