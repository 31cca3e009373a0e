"""Live: the real Batsim and batsched, where they are on PATH, beside the embedded engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_swf, read_workload
from qops_batsim.workload import convert_log, subset, write_workload
from support.energy_sessions import session_difference
from support.live_engines import (
    BATSCHED,
    COMMAND,
    batsched_difference,
    difference,
    engines_differ,
    fractional_case,
    run_both,
    run_case,
    schedule_in_digits,
    served_difference,
)
from support.random_platforms import zoned_case
from support.random_simulations import SCHEDULERS, Case, random_case
from support.shared_cases import SHARING, only_sleeps, shared_case

pytestmark = pytest.mark.usefixtures("batsim")


# Our schedulers with both engines


def swept(*values: object) -> Any:
    """Return values that only a sweep runs: what is seen with them, others show sooner."""
    return pytest.param(*values, marks=pytest.mark.sweep)


LOGS = {
    "kth": ("KTH-SP2-1996-2.swf.gz", 100),
    "sdsc": ("SDSC-SP2-1998-first5000.swf.gz", 128),
    "ctc": ("CTC-SP2-1996-rebuilt.swf.gz", 338),
}


@pytest.fixture(scope="module")
def logs(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with the first 1,000 jobs of real logs."""
    directory = tmp_path_factory.mktemp("logs")
    for name, (file, processors) in LOGS.items():
        log = read_swf(shared / "traces" / file)
        converted = convert_log(log, processors=processors, first=1000)
        write_workload(converted.workload, directory / f"{name}.json")
    return directory


@pytest.mark.parametrize(
    ("scheduler", "log"),
    [
        *((name, "kth") for name in ("fcfs", "easy", "nqs")),
        *((name, "sdsc") for name in ("easy", "nqs")),
        *(swept(name, log) for name in ("conservative", "slack") for log in ("kth", "sdsc")),
        ("easy", "ctc"),
    ],
)
def test_real_logs(tmp_path: Path, logs: Path, scheduler: str, log: str) -> None:
    platform = {"kth": "kth_sp2_100", "sdsc": "sdsc_sp2_128", "ctc": "ctc_sp2_338"}[log]
    runs = run_both(scheduler, logs / f"{log}.json", platform, None, tmp_path)
    assert difference(runs) == ""
    assert runs[0].violations == runs[1].violations == []


KILLS = {"kill_and_restart": True, "tolerance_factor": 4.0, "slack_factor": 2.0}


@pytest.mark.parametrize(
    ("scheduler", "settings"),
    [
        ("priced-queues", {}),
        *(swept(name, {}) for name in ("qops", "msb", "mrt", "fqops")),
        swept("fqops", KILLS),
    ],
)
def test_deadlines_kills_and_restarts(
    tmp_path: Path, shared: Path, scheduler: str, settings: dict[str, Any]
) -> None:
    inputs = shared / "batsim" / "networked" / "inputs"
    workload, platform = inputs / "kth_1300_deadlines.json.gz", inputs / "p100_nonet.xml"
    runs = run_both(scheduler, workload, platform, settings, tmp_path)
    assert difference(runs) == ""
    assert runs[0].violations == runs[1].violations == []


@pytest.mark.parametrize(
    ("workload", "platform"),
    [
        swept("networked/inputs/kth_sp2_mixed_500.json.gz", "networked/inputs/p100_nonet.xml"),
        ("inputs/share_random.json", "inputs/het4_nonet.xml"),
    ],
)
def test_shared_hosts(tmp_path: Path, shared: Path, workload: str, platform: str) -> None:
    inputs = shared / "batsim"
    runs = run_both("aroma", inputs / workload, inputs / platform, {"stops": 0}, tmp_path)
    assert difference(runs) == ""


def check_case(case: Case, directory: Path) -> None:
    """Check that both engines give the same run of a case, and that no rule is broken in it."""
    runs = run_case(case, directory)
    assert difference(runs) == ""
    assert runs[0].violations == runs[1].violations == []


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_random_simulations_without_network(tmp_path: Path, scheduler: str, seed: int) -> None:
    check_case(random_case(seed, scheduler, network=False), tmp_path)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scheduler", SHARING)
def test_random_simulations_on_shared_hosts(tmp_path: Path, scheduler: str, seed: int) -> None:
    case = shared_case(seed, scheduler, events=seed == 1)
    runs = run_case(case, tmp_path)
    assert difference(runs) == ""
    if only_sleeps(case):
        assert schedule_in_digits(runs[0]) == schedule_in_digits(runs[1])
    assert runs[0].violations == runs[1].violations == []
    assert runs[0].compute_sharing
    assert runs[0].lateness == runs[1].lateness


def test_shared_hosts_under_serve(tmp_path: Path) -> None:
    assert served_difference(shared_case(3, "qops"), tmp_path) == ""


def net(name: str) -> str:
    return f"networked/inputs/{name}"


KTH, DEADLINES, MIXED = (
    net(f"{name}.json.gz") for name in ("kth_sp2_1000", "kth_1300_deadlines", "kth_sp2_mixed_500")
)


@pytest.mark.parametrize(
    ("scheduler", "workload", "platform", "settings"),
    [
        ("easy", KTH, "net100.xml", {}),
        swept("slack", KTH, "net100.xml", {}),
        swept("conservative", KTH, "net100_1ms.xml", {}),
        swept("qops", DEADLINES, "net100.xml", {}),
        swept("msb", DEADLINES, "net100_1ms.xml", {}),
        swept("fqops", DEADLINES, "net100.xml", KILLS),
        swept("aroma", MIXED, "net100.xml", {}),
        ("aroma", net("aroma_mixed.json.gz"), "aroma_grid.xml", {}),
    ],
)
def test_networks(
    tmp_path: Path,
    shared: Path,
    scheduler: str,
    workload: str,
    platform: str,
    settings: dict[str, Any],
) -> None:
    inputs = shared / "batsim"
    given = (scheduler, inputs / workload, inputs / net(platform), settings)
    runs = run_both(*given, tmp_path)
    assert difference(runs) == ""
    assert runs[0].violations == runs[1].violations == []
    assert runs[0].lateness == runs[1].lateness


@pytest.mark.parametrize(("seed", "events"), [*((seed, False) for seed in range(3)), (6, True)])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_random_simulations_with_networks(
    tmp_path: Path, scheduler: str, seed: int, events: bool
) -> None:
    check_case(random_case(seed, scheduler, network=True, events=events), tmp_path)


ZONED = (0, 11, 32, 39, 41, 112, 226, 272)
"""Seeds of nested zones near and far, with hosts that leave, of links without latencies."""


@pytest.mark.parametrize("seed", ZONED)
def test_random_simulations_on_zones_inside_each_other(tmp_path: Path, seed: int) -> None:
    check_case(zoned_case(seed), tmp_path)


# Decision processes with both engines


@pytest.mark.usefixtures("batsched")
@pytest.mark.parametrize(
    ("variant", "log", "platform"),
    [
        ("fcfs", "inputs/sdsc5k_delay.json.gz", "inputs/p128_nonet.xml"),
        swept("easy_bf", "inputs/sdsc5k_delay.json.gz", "inputs/p128_nonet.xml"),
        swept("conservative_bf", "inputs/sdsc5k_delay.json.gz", "inputs/p128_nonet.xml"),
        swept("fcfs", KTH, net("net100.xml")),
        # Its backfillers fail an assertion where a job reaches its walltime by the latency late.
    ],
)
def test_batsched(tmp_path: Path, shared: Path, variant: str, log: str, platform: str) -> None:
    inputs, workload = shared / "batsim", tmp_path / "log.json"
    whole = read_workload(inputs / log)
    write_workload(subset(whole, first=min(1500, len(whole.jobs))), workload)
    assert batsched_difference(variant, workload, inputs / platform, tmp_path) == ""


@pytest.mark.usefixtures("batsched")
@pytest.mark.parametrize("variant", BATSCHED)
def test_batsched_on_fractional_dates(tmp_path: Path, variant: str) -> None:
    # Of dates that differ by less than a microsecond, conservative_bf's slices collide.
    workload, platform = fractional_case(0, tmp_path)
    assert batsched_difference(variant, workload, platform, tmp_path) == ""


DYNAMIC = ("--enable-dynamic-jobs", "--enable-profile-reuse", "--acknowledge-dynamic-jobs")


@pytest.mark.parametrize(
    ("network", "scheduler", "options", "switches"),
    [
        (True, "easy", (), ()),
        swept(False, "conservative", ("reserve=processors",), ()),
        swept(False, "fqops", ("kill_and_restart=true",), DYNAMIC),
        swept(True, "fqops", ("kill_and_restart=true",), DYNAMIC),
        swept(True, "fqops", ("kill_and_restart=true",), DYNAMIC[:2]),
    ],
)
def test_serve(
    tmp_path: Path,
    scheduler: str,
    options: tuple[str, ...],
    switches: tuple[str, ...],
    network: bool,
) -> None:
    workload, platform = random_case(7, scheduler, network=network, jobs=150).write(tmp_path)
    served = [*COMMAND, "serve", scheduler, "-s", "{endpoint}", "-q", "-o", str(tmp_path / "our")]
    served += [part for option in options for part in ("--set", option)]
    arguments = ["-p", str(platform), "-w", str(workload), *switches]
    assert engines_differ(served, arguments, tmp_path) == ""


# Energy and power states


@pytest.mark.parametrize("network", [False, True])
def test_random_sessions_with_energy_give_the_same_files(tmp_path: Path, network: bool) -> None:
    for seed in range(6):
        directory = tmp_path / str(seed)
        directory.mkdir()
        assert not session_difference(seed, directory, network=network), seed
