"""Work lost in killed runs on hosts that jobs share."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from qops_batsim import read_platform, run
from qops_batsim.jobs import Job
from qops_batsim.measures.metrics.measured import MeasuredFiles
from qops_batsim.workload.workload_model import Workload, delay_profile
from support import node_drawn as drawn
from support.node_cases import platform_of


def test_lost_work_counts_dominant_shares(tmp_path: Path) -> None:
    # Two hosts of 8 cores. A has 4 cores of each, a size of 1; at 50 it is killed for B, with 40
    # of 100 seconds saved, and goes on at 60.
    #
    # n1 AAAAA AAAAAA
    # n2 AAAAA AAAAAA
    # n1      B        has 6 cores
    # n2      B
    (tmp_path / "p.xml").write_text(platform_of(drawn.machine(*[drawn.host(cores=8)] * 2)))
    platform = read_platform(tmp_path / "p.xml")
    profiles = dict(map(delay_profile, (100, 10)))
    long, short = profiles
    rows = [
        ("a", 0, long, 4, {"deadline": 1000, "estimated_runtime": 100, "checkpoint": 20}),
        ("b", 50, short, 6, {"deadline": 61, "estimated_runtime": 10}),
    ]
    jobs = [
        Job.from_fields(
            {
                "id": name,
                "subtime": submission,
                "res": 2,
                "profile": profile,
                "per_host": {"cores": cores},
                "qos": qos,
            },
            where=name,
        )
        for name, submission, profile, cores, qos in rows
    ]
    workload = Workload(jobs=jobs, profiles=profiles, processors=2)
    settings = {"kill_and_restart": True}
    done = run("fqops", workload, platform, settings, out=tmp_path / "run")
    decisions = done.result.decisions
    assert decisions is not None
    assert decisions.by_id("wasted_processor_seconds")["w0!a"] == 10.0

    # A ran for 40 + 60 s.
    measured = MeasuredFiles(done.result, {"w0": workload})
    assert measured.run_times.tolist() == [10.0, 100.0]
    assert measured.stretches.tolist() == [1.0, pytest.approx(1.2)]
    unknown = MeasuredFiles(done.result, {})
    assert math.isnan(unknown.run_times[1])
