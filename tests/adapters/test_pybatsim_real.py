"""pybatsim's schedulers on our engine, and our schedulers in pybatsim."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from qops_batsim import Job
from qops_batsim.core import HostDescription
from qops_batsim.engine import EngineOptions
from qops_batsim.protocol import (
    EngineConfig,
    JobSubmitted,
    Message,
    SimulationBegins,
    Stamped,
    decode_decisions,
    encode_message,
)
from support.ecosystem import OUR_SCHEDULERS, Example, Processes, delays, four_hosts
from support.time_limit import TimeLimit, TimeLimitOptions

TESTS = Path(__file__).resolve().parent.parent
VERSION_3 = "pybatsim==3.2.1"
VERSION_4 = "pybatsim==4.0.0a0"

Run = Callable[..., Path]


@pytest.fixture
def run(
    processes: Processes,
    package: Callable[[str], Path],
    qops_batsim_command: Path,
    address: str,
    tmp_path: Path,
) -> Run:
    """Give a function that runs a pybatsim against our engine and returns the prefix."""

    def run_both(
        version: str,
        scheduler: object,
        example: Example,
        *,
        options: dict[str, object] | None = None,
        engine: tuple[str, ...] = (),
    ) -> Path:
        home, prefix = package(version), tmp_path / "out" / "run"
        simulated = processes.start(
            *(qops_batsim_command, "engine", "--socket-endpoint", address, *engine),
            *("--platform", example.platform, "--workload", example.workload, "--export", prefix),
        )
        processes.run(
            *(sys.executable, home / "bin" / "pybatsim", scheduler, "-s", address),
            *(["-o", json.dumps(options)] if options else []),
            PYTHONPATH=f"{home}:{TESTS}",
        )
        processes.finish(simulated)
        return prefix

    return run_both


FOREIGN = [
    (VERSION_3, "fillerSched"),
    (VERSION_3, "easyBackfill"),
    (VERSION_4, "filler"),
    (VERSION_4, "backfill-easy"),
]


@pytest.mark.parametrize(("version", "scheduler"), FOREIGN)
def test_foreign_schedulers_run_on_our_engine(
    run: Run, example: Example, version: str, scheduler: str
) -> None:
    starts = example.verified_starts(run(version, scheduler, example))
    ours = example.starts("easy")
    if "filler" in scheduler:
        # Fillers say that each pass takes them 5 ms: they date their decisions in the future.
        assert 0.004 < min(starts.values()) - min(ours.values()) < 0.1
    elif example.workload.name in ("ties.json", "test_delays.json"):
        # The other EASY wants neighbouring hosts, which makes no difference here.
        assert starts == ours


@pytest.mark.parametrize("version", [VERSION_3, VERSION_4])
def test_foreign_schedulers_reject_what_is_too_wide(run: Run, tmp_path: Path, version: str) -> None:
    rows = [(0.0, 2, 5.0, 9.0), (1.0, 5, 5.0, 9.0), (2.0, 3, 5.0, 9.0)]
    example = Example(four_hosts(tmp_path), delays(tmp_path, rows))
    scheduler = "easyBackfill" if version == VERSION_3 else "backfill-easy"
    prefix = run(version, scheduler, example)
    assert Path(f"{prefix}_jobs.csv").read_text() == example.jobs_csv("easy")


def jobs_csv(prefix: Path) -> str:
    return Path(f"{prefix}_jobs.csv").read_text()


def test_our_easy_in_pybatsim_4_decides_as_in_process(run: Run, example: Example) -> None:
    assert jobs_csv(
        run(VERSION_4, "qops", example, options={"scheduler": "easy"})
    ) == example.jobs_csv("easy")


@pytest.mark.parametrize("scheduler", OUR_SCHEDULERS)
def test_all_of_ours_in_pybatsim_4_decide_as_in_process(
    run: Run, deadlines: Example, scheduler: str
) -> None:
    prefix = run(VERSION_4, "qops", deadlines, options={"scheduler": scheduler})
    assert jobs_csv(prefix) == deadlines.jobs_csv(scheduler)


@pytest.mark.parametrize("reserve", ["hosts", "processors"])
def test_options_reach_our_module(run: Run, shipped: Example, reserve: str) -> None:
    options = {"reserve": reserve}
    prefix = run(VERSION_4, "qops", shipped, options={"scheduler": "conservative", **options})
    assert jobs_csv(prefix) == shipped.jobs_csv("conservative", options)


def test_the_documented_file_is_a_scheduler_of_pybatsim_3(
    run: Run, documented: list[str], shipped: Example, tmp_path: Path
) -> None:
    title = "# qops.py\n"
    (content,) = [block for block in documented if block.startswith(title)]
    file = tmp_path / "mine" / "qops.py"
    file.parent.mkdir()
    file.write_text(content)
    prefix = run(VERSION_3, file, shipped, options={"scheduler": "easy"})
    assert jobs_csv(prefix) == shipped.jobs_csv("easy")


@pytest.mark.parametrize("version", [VERSION_3, VERSION_4])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_module_of_ones_own_kills_waits_and_registers(
    run: Run, tmp_path: Path, version: str, dynamic: bool
) -> None:
    rows = [(0.0, 3, 60.0, 90.0), (1.0, 2, 8.0, 9.0), (2.0, 3, 60.5, 90.5), (40.0, 4, 10.0, 11.0)]
    example = Example(four_hosts(tmp_path), delays(tmp_path, rows))
    file = tmp_path / "qops.py"
    file.write_text("from qops_batsim.adapters.pybatsim import Qops\n")
    own = f"{TESTS / 'support' / 'time_limit.py'}:TimeLimit"
    prefix = run(
        *(version, file if version == VERSION_3 else "qops", example),
        options={"scheduler": own, "limit": 12},
        engine=("--enable-dynamic-jobs", "--acknowledge-dynamic-jobs") if dynamic else (),
    )
    module = TimeLimit(TimeLimitOptions(limit=12.0))
    assert jobs_csv(prefix) == example.jobs_csv(module, None, EngineOptions(dynamic_jobs=dynamic))
    lines = jobs_csv(prefix).splitlines()
    assert sum("COMPLETED_KILLED" in line for line in lines) == 2
    assert sum("-again" in line for line in lines) == (2 if dynamic else 0)
    assert '"cut at 12"' in lines[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reserve": "nothing"}, "option reserve is 'nothing'"),
        ({"reserv": "hosts"}, "has no option 'reserv'; did you mean 'reserve'?"),
    ],
)
def test_a_wrong_option_is_one_line(
    processes: Processes,
    package: Callable[[str], Path],
    options: dict[str, str],
    message: str,
) -> None:
    home = package(VERSION_4)
    said = processes.run(
        *(sys.executable, home / "bin" / "pybatsim", "qops"),
        *("-o", json.dumps({"scheduler": "conservative", **options})),
        PYTHONPATH=str(home),
        exit_code=1,
    )
    assert said.startswith("qops-batsim: error: scheduler 'conservative'")
    assert message in said
    assert said.count("\n") == 1


def test_a_job_that_cannot_be_read_is_one_line_and_ends_pybatsim(
    processes: Processes, package: Callable[[str], Path], address: str
) -> None:
    home = package(VERSION_4)
    scheduler = processes.start(
        *(sys.executable, home / "bin" / "pybatsim", "qops", "-s", address),
        *("-o", '{"scheduler": "easy"}'),
        PYTHONPATH=str(home),
    )
    begins = SimulationBegins(
        nb_resources=1,
        nb_compute_resources=1,
        config=EngineConfig(),
        compute_resources=[HostDescription(0, "host")],
        profiles={"w0": {"p": {"type": "delay", "delay": 1}}},
    )
    fields = {"id": "w0!1", "subtime": 0, "res": 1, "profile": "p", "qos": {"deadline": "soon"}}
    bad = JobSubmitted("w0!1", Job("w0!1", 0.0, 1, "p", fields=fields))
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, 30_000)
        socket.connect(address)
        for event in (begins, bad):
            socket.send(encode_message(Message(0.0, [Stamped(0.0, event)])))
            if event is begins:
                assert decode_decisions(socket.recv()).events == []
        last = processes.finish(scheduler, exit_code=1).splitlines()[-1]
    assert last.startswith("qops-batsim: error: JOB_SUBMITTED (job 'w0!1'): field 'qos': deadline")
