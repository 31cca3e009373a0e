"""Generated jobs that ask for parts of hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, read_platform, read_workload
from qops_batsim.core.host_properties import machine_of
from qops_batsim.core.machine import Machine
from qops_batsim.workload import format_workload, parse_workload
from qops_batsim.workload.node_mix import MIB, NODE_MIXES, node_mix_workload, sample_node_mix
from qops_batsim.workload.synthetic import DeadlineRule

GRAHAM = NODE_MIXES["graham"]
WHOLE = {"cores": 32, "memory": 128_000 * MIB, "gpus": 2}
"""What a host has that the mix is meant for."""


def machine(*hosts: dict[str, str]) -> Machine:
    made = machine_of(hosts, [f"h{number}" for number in range(len(hosts))])
    assert made is not None
    return made


def test_equal_seeds_give_equal_workloads() -> None:
    first = format_workload(node_mix_workload(jobs=200, seed=5))
    assert format_workload(node_mix_workload(jobs=200, seed=5)) == first
    assert format_workload(node_mix_workload(jobs=200, seed=6)) != first
    assert format_workload(parse_workload(first, source="w.json")) == first


def test_the_mix_is_that_of_the_log() -> None:
    made = sample_node_mix(GRAHAM, 60_000, 1, GRAHAM.machine(300))
    binding: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for asked in made.asked:
        part = asked.parts[0]
        shares = {kind: part.amounts.get(kind, 0) / whole for kind, whole in WHOLE.items()}
        binding[max(shares, key=lambda kind: shares[kind])] += 1
        kinds["tasks"] += part.tasks > 0
        kinds["one core"] += part.amounts["cores"] == 1 and not part.tasks
        kinds["several"] += part.hosts > 1 and not part.tasks

    # As `python studies/presets/node_mix.py` prints of the log. Bursts make samples differ.
    for count, share, within in (
        (binding["cores"], 0.636, 0.05),
        (binding["memory"], 0.271, 0.04),
        (binding["gpus"], 0.093, 0.03),
        (kinds["tasks"], 0.018, 0.006),
        (kinds["several"], 0.027, 0.007),
    ):
        assert abs(count / 60_000 - share) < within
    assert abs((made.run_times == made.limits).mean() - 0.083) < 0.01
    assert abs((made.run_times / made.limits).mean() - 0.350) < 0.01


@given(
    st.lists(
        st.fixed_dictionaries(
            {"cores": st.integers(1, 40).map(str)},
            optional={"memory": st.sampled_from(["8GiB", "64GiB"]), "gpus": st.just("1")},
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 99),
)
def test_jobs_fit_the_machine(hosts: list[dict[str, str]], seed: int) -> None:
    whole = machine(*hosts)
    for asked in sample_node_mix(GRAHAM, 30, seed, whole).asked:
        (part,) = asked.parts
        # How often each host has what the part asks for.
        times = [
            min(
                dict(zip(whole.kinds, amounts, strict=True)).get(kind, 0) // amount
                for kind, amount in part.amounts.items()
            )
            for amounts in whole.amounts
        ]
        if part.tasks:
            assert part.hosts <= min(whole.hosts, part.tasks)
            assert sum(times) >= part.tasks
        else:
            assert sum(each >= 1 for each in times) >= part.hosts
        assert ("memory" in part.amounts) == ("memory" in whole.kinds)


def test_the_load_counts_dominant_shares() -> None:
    # Two hosts: 4 cores are half of what the machine has, which is one host.
    whole = machine({"cores": "4", "memory": "100GB"}, {"cores": "4", "memory": "100GB"})
    made = sample_node_mix(GRAHAM, 500, 3, whole, 1.25)
    work = 0.0
    for asked, run_time in zip(made.asked, made.run_times.tolist(), strict=True):
        part = asked.parts[0]
        times = part.tasks or part.hosts
        shares = [
            times * amount / whole.totals[kind] * whole.hosts
            for kind, amount in part.amounts.items()
        ]
        work += run_time * max(shares)
    assert work / (2 * made.submissions[-1]) == pytest.approx(1.25, rel=1e-4)
    assert (made.submissions[:-1] <= made.submissions[1:]).all()


def test_jobs_come_in_bursts_that_ask_for_the_same() -> None:
    workload = node_mix_workload(jobs=3000, seed=2)
    pairs = list(zip(workload.jobs, workload.jobs[1:], strict=False))
    same = sum(one.hosts_asked == other.hosts_asked for one, other in pairs)
    at_once = sum(one.submission_time == other.submission_time for one, other in pairs)
    assert same > 0.5 * len(pairs)
    assert at_once > 0.3 * len(pairs)
    assert len({job.profile for job in workload.jobs}) > 1000  # Run times are their own.


def test_deadlines_and_exact_estimates() -> None:
    rule = DeadlineRule(share=1.0, stretch=(2.0, 3.0))
    plain = node_mix_workload(jobs=50, seed=4)
    made = node_mix_workload(jobs=50, seed=4, deadlines=rule)
    assert [job.hosts_asked for job in made.jobs] == [job.hosts_asked for job in plain.jobs]
    for job, (run_time, limit) in zip(
        made.jobs, zip(plain.delays, plain.columns.walltimes, strict=True), strict=True
    ):
        assert run_time <= limit
        assert job.walltime is None
        assert job.qos is not None
        assert job.qos.estimated_runtime == run_time
        assert job.qos.deadline is not None
        assert 2 * run_time <= job.qos.deadline - job.submission_time <= 3 * run_time + 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"jobs": 0}, "jobs is 0; a whole number from 1 to"),
        ({"load": 0.0}, "load is 0; a number from 0.001 to 1000 is accepted"),
        ({"hosts": 0}, "processors is 0; a whole number from 1 to"),
        ({"hosts": 3, "machine": GRAHAM.machine(2)}, "processors is 3, but the platform has 2 ho"),
        ({"machine": machine({"gpus": "1"})}, "none of 1,000 drawn requests fits its 1 hosts"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        node_mix_workload(**given)
    assert told in str(caught.value)


PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="AS0" routing="Full">
<host id="master_host" speed="1Gf"/>
<host id="a" speed="1Gf">%s</host><host id="b" speed="1Gf">%s</host>
</zone></platform>
"""
AMOUNTS = '<prop id="cores" value="16"/><prop id="memory" value="64GB"/>'


def test_the_command_takes_a_platform(tmp_path: Path, cli: Callable[..., Any]) -> None:
    platform, out = tmp_path / "p.xml", tmp_path / "w.json"
    platform.write_text(PLATFORM % (AMOUNTS, AMOUNTS))
    options = ("--preset", "graham", "--platform", platform, "--jobs", 300, "--load", 1.1)
    told = cli("workload", "generate", out, *options)
    assert told.exit_code == 0, told.err
    assert "w.json: 300 jobs on 2 processors\n" in told.out
    assert "asked by shares of jobs: parts of hosts 100.0 %" in told.out
    assert "offered load by dominant shares: 1.1000" in told.out
    made = read_workload(out)
    assert made.provenance["totals"] == read_platform(platform).machine.totals  # type: ignore[union-attr]
    assert made.columns.hosts_asked is not None
    assert max(one.parts[0].amounts["cores"] for one in made.columns.hosts_asked if one) <= 16

    scaled = cli("workload", "scale", out, tmp_path / "s.json", "--load", 1.5)
    assert "offered load (hosts counted whole): " in scaled.out
    assert "asked by shares of jobs: parts of hosts 100.0 %" in scaled.out


def test_a_platform_without_amounts_is_refused(tmp_path: Path, cli: Callable[..., Any]) -> None:
    platform, out = tmp_path / "p.xml", tmp_path / "w.json"
    platform.write_text(PLATFORM % ("", ""))
    result = cli("workload", "generate", out, "--preset", "graham", "--platform", platform)
    assert (result.exit_code, out.exists()) == (2, False)
    assert "p.xml has amounts that jobs share" in result.err
    result = cli("workload", "generate", out, "--preset", "kth-sp2", "--platform", platform)
    assert result.exit_code == 2
    assert "--platform has no effect with --preset kth-sp2; leave it out" in result.err


def test_a_report_says_what_jobs_ask(tmp_path: Path, cli: Callable[..., Any]) -> None:
    path = tmp_path / "w.json"
    usual = '"subtime": 0, "res": 2, "profile": "p"'
    asked = (
        '"per_host": {"cores": 1, "gpus:v100": 1}, "hosts_with": ["fast"]',
        '"exclusive": true, "licences": {"matlab": 1}',
        '"tasks": 4, "per_task": {"cores": 1}',
        '"user": "eva"',
    )
    jobs = ", ".join(f'{{"id": {n}, {usual}, {told}}}' for n, told in enumerate(asked))
    profiles = '{"p": {"type": "delay", "delay": 3}}'
    path.write_text(f'{{"nb_res": 4, "jobs": [{jobs}], "profiles": {profiles}}}')
    assert (
        "asked by shares of jobs: parts of hosts 50.0 %, tasks 25.0 %, hosts of their own 25.0 %; "
        "of kinds: cores 50.0 %, gpus 25.0 %, gpus:v100 25.0 %; with: fast 25.0 %, licence matlab "
        "25.0 %\n"
    ) in cli("workload", "import", path).out
