"""Logs imported by amounts: what jobs ask of each host, and what is told of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, read_platform
from qops_batsim.files import read_stored
from qops_batsim.traces import read_partitions, read_trace
from qops_batsim.traces.reading import log_in
from qops_batsim.workload import Conversion, Repairs, convert_log, write_workload
from qops_batsim.workload.accounting import Choices
from qops_batsim.workload.accounting.amounts import (
    decoded_request,
    requests_of,
)
from qops_batsim.workload.accounting.node_sizes import NodeSizes, nodes_of_platform
from qops_batsim.workload.accounting.pbs_requests import chunks_in
from qops_batsim.workload.accounting.site import CsvForm

GIB = 1 << 30
MIB = 1 << 20

# Four hosts of 32 cores and 64 GiB, of which the last, in partition gpu, has two GPUs.
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="None"><host id="master_host" speed="1Gf"/>{}
</zone></platform>
""".format(
    "".join(
        f'<host id="h{number}" speed="1Gf"><prop id="cores" value="32"/>'
        f'<prop id="memory" value="64GiB"/>{more}</host>'
        for number, more in enumerate(
            [""] * 3 + ['<prop id="gpus:v100" value="2"/><prop id="labels" value="gpu"/>']
        )
    )
)


def nodes(tmp_path: Path) -> NodeSizes:
    path = tmp_path / "platform.xml"
    path.write_text(PLATFORM)
    return nodes_of_platform(read_platform(path))


def told(found: Conversion) -> dict[str, int]:
    """Return how many jobs each repair concerned, those apart that every log has."""
    return {each.rule: each.jobs for each in found.repairs if each.jobs}


def asked(found: Conversion) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return the hosts of each job, and its fields that say what it asks of them."""
    fields = ("per_host", "tasks", "per_task", "hosts_with", "exclusive", "licences", "parts")
    return {
        job.id: (job.processors, {name: job.fields[name] for name in fields if name in job.fields})
        for job in found.workload.jobs
    }


@given(
    st.lists(st.tuples(st.integers(1, 7), st.integers(0, 50), st.integers(0, 9)), min_size=1),
)
def test_parts_of_totals_are_the_least_that_are_enough(jobs: list[tuple[int, int, int]]) -> None:
    hosts, cores, gpus = np.array(jobs, np.float64).T
    amounts = {"cores": cores, "memory": np.zeros(len(jobs)), "gpus": gpus}
    column, told = requests_of(hosts, amounts)
    uneven = told["uneven"].tolist()
    for (number, *totals), text, odd in zip(jobs, column.texts(), uneven, strict=True):
        request = decoded_request(text)
        assert request is not None
        (part,) = request.parts
        assert part.hosts == number
        each = [part.amounts.get(kind, 0) for kind in ("cores", "gpus")]
        for one, total in zip(each, totals, strict=True):
            assert (one - 1) * number < total <= one * number or one == total == 0
        assert odd == any(total % number for total in totals)


TABLE = """job,at,ran,nodes,cores,mem,cards,queue
a,1000,100,1,8,16384,0,main
b,1010,100,2,13,1000,2,gpu
c,1020,100,1,64,1000,0,main
d,1030,100,2,2,,0,main
e,1040,100,1,1,1024,3,gpu
f,1050,100,3,,,0,main
g,1060,100,,4,10,0,main
"""
COLUMNS = {"id": "job", "submit": "at", "run_time": "ran", "nodes": "nodes", "cores": "cores"}
COLUMNS |= {"memory": "mem", "gpus": "cards", "queue": "queue"}


def of_table(
    tmp_path: Path, units: dict[str, str] | None = None, text: str = TABLE, **more: Any
) -> Conversion:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    form = CsvForm(COLUMNS, units)
    choices = Choices(by="amounts", nodes=nodes(tmp_path))
    log = log_in(read_stored(path, what="a log"), "jobs.csv", choices, "csv", form)
    return convert_log(log, **more)


def test_a_table_tells_totals_which_are_divided(tmp_path: Path) -> None:
    found = of_table(tmp_path)
    # Of those with label gpu there is one; c has more cores than any host, e more GPUs.
    assert asked(found) == {
        "a": (1, {"per_host": {"cores": 8, "memory": 16 * GIB}}),
        "d": (2, {"per_host": {"cores": 1}}),
        "f": (3, {}),
    }
    assert told(found) == {
        "uneven": 1,
        "no_memory": 2,
        "no_amounts": 1,
        "any_partition": 5,
        "no_processors": 1,
        "no_room": 3,
        "no_requested_time": 3,
    }
    assert found.workload.processors == 4
    assert not {"gpu_count", "memory_mb", "gpus", "memory"} & found.workload.jobs[0].fields.keys()
    # a has a sixteenth of all memory, d a 64th of all cores, f three whole hosts of four: 3.3125
    # hosts of four for 100 of 50 s.
    assert found.offered_load == pytest.approx((0.25 + 0.0625 + 3) * 100 / (4 * 50))


def test_jobs_without_room_may_be_kept(tmp_path: Path) -> None:
    kept = of_table(tmp_path, repairs=Repairs(too_wide="keep"))
    assert asked(kept)["b"] == (
        2,
        {"per_host": {"cores": 7, "memory": 500 * MIB, "gpus": 1}, "hosts_with": ["gpu"]},
    )
    assert {"c", "e"} <= asked(kept).keys()
    with pytest.raises(InputError, match="too_wide is clip, but jobs ask for amounts of each host"):
        of_table(tmp_path, repairs=Repairs(too_wide="clip"))


@pytest.mark.parametrize(
    ("unit", "cell", "memory"),
    [
        ("MB", "1000", 500 * MIB),
        ("GB/host", "3", 3 * GIB),
        ("MB/core", "100", 700 * MIB),
        ("MB", "3Gn", 3 * GIB),
        ("MB/host", "100Mc", 700 * MIB),
        ("B", "1", 1),
    ],
)
def test_memory_of_a_table_has_a_unit(tmp_path: Path, unit: str, cell: str, memory: int) -> None:
    """Of the job, of each host, or of each core: 13 cores on two hosts are 7 on each."""
    text = f"job,at,ran,nodes,cores,mem,cards,queue\na,1000,100,2,13,{cell},0,\n"
    found = of_table(tmp_path, {"memory": unit}, text)
    assert asked(found)["a"][1] == {"per_host": {"cores": 7, "memory": memory}}


def test_a_table_needs_hosts(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE)
    stored = read_stored(path, what="a log")
    columns = {name: column for name, column in COLUMNS.items() if name != "nodes"}
    with pytest.raises(InputError, match="no column tells on how many hosts a job is"):
        log_in(stored, "jobs.csv", Choices(by="amounts"), "csv", CsvForm(columns))
    with pytest.raises(InputError, match="processors and cores, which mean the same"):
        CsvForm({**COLUMNS, "processors": "cores"})
    # Without a list of nodes, nothing tells how many hosts there are.
    log = log_in(stored, "jobs.csv", Choices(by="amounts"), "csv", CsvForm(COLUMNS))
    with pytest.raises(InputError, match="share hosts, so that the number of hosts does not"):
        convert_log(log)
    found = convert_log(log, processors=9)
    assert found.offered_load is None
    assert asked(found)["c"] == (1, {"per_host": {"cores": 64, "memory": 1000 * MIB}})
    with pytest.raises(InputError, match="by is amounts, but partitions are counted by one"):
        read_partitions(path, by="amounts")


PBS = """\
05/01/2024 10:01:00;E;1.pbs;{}user=a ctime=1714550400 start=1714550460 end=1714550580 \
Exit_status=0 Resource_List.walltime=01:00:00 resources_used.walltime=00:02:00 {}
"""


@pytest.mark.parametrize(
    ("resources", "hosts", "fields", "rules"),
    [
        (
            "select=2:ncpus=8:mem=16gb:ngpus=1+1:ncpus=4:mem=500mb place=scatter",
            3,
            {
                "parts": [
                    {"res": 2, "per_host": {"cores": 8, "memory": 16 * GIB, "gpus": 1}},
                    {"res": 1, "per_host": {"cores": 4, "memory": 500 * MIB}},
                ]
            },
            {"no_room"},  # One host has GPUs: kept.
        ),
        (
            "select=2:ncpus=8:mem=16gb+1:ncpus=4 place=free",
            3,
            {
                "parts": [
                    {"res": 2, "per_host": {"cores": 8, "memory": 16 * GIB}},
                    {"res": 1, "per_host": {"cores": 4}},
                ]
            },
            {"placement"},
        ),
        (
            "select=6:ncpus=2:mem=1gb:mpiprocs=2 place=free",
            4,
            {"tasks": 6, "per_task": {"cores": 2, "memory": GIB}},
            set(),
        ),
        (
            "select=6:ncpus=2:mem=1gb place=pack",
            1,
            {"per_host": {"cores": 12, "memory": 6 * GIB}},
            set(),
        ),
        (
            "select=2:ncpus=2:mem=1gb place=scatter:excl",
            2,
            {"per_host": {"cores": 2, "memory": GIB}, "exclusive": True},
            {"exclusive"},
        ),
        ("select=1:ncpus=32:vnode=h1", 1, {"per_host": {"cores": 32}}, {"no_memory", "vnodes"}),
        (
            "nodes=2:ppn=4:gpu+1:ppn=2 pmem=1gb",
            3,
            {
                "parts": [
                    # One host has that label, but two are asked for: kept.
                    {
                        "res": 2,
                        "per_host": {"cores": 4, "memory": 4 * GIB},
                        "hosts_with": ["gpu"],
                    },
                    {"res": 1, "per_host": {"cores": 2, "memory": 2 * GIB}},
                ]
            },
            {"no_room"},
        ),
        ("nodes=h7 mem=3gb", 1, {"per_host": {"cores": 1, "memory": 3 * GIB}}, {"constraints"}),
        ("nodect=2", 2, {}, {"no_amounts", "no_memory"}),
        (
            "select=1:ncpus=4+1:ncpus=0:ngpus=0 place=scatter",
            2,
            {"parts": [{"res": 1, "per_host": {"cores": 4}}, {"res": 1, "exclusive": True}]},
            {"no_amounts", "no_memory"},
        ),
        (
            "nodect=2 ncpus=9 mem=8gb",
            2,
            {"per_host": {"cores": 5, "memory": 4 * GIB}},
            {"uneven"},
        ),
    ],
)  # fmt: skip
def test_chunks_of_pbs_are_hosts(
    tmp_path: Path, resources: str, hosts: int, fields: dict[str, Any], rules: set[str]
) -> None:
    path = tmp_path / "pbs.txt"
    listed = " ".join(f"Resource_List.{each}" for each in resources.split())
    path.write_text(PBS.format("", listed))
    choices = Choices(by="amounts", nodes=nodes(tmp_path))
    found = read_trace(path, accounting=choices, repairs=Repairs(too_wide="keep"))
    assert asked(found) == {"1.pbs": (hosts, fields)}
    assert told(found).keys() == rules


def test_what_a_job_of_pbs_had_counts_where_no_request_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pbs.txt"
    had = "exec_vnode=(h0:ncpus=8:mem=1048576kb)+(h1:ncpus=4)+(h1:ncpus=4:mem=1048576kb)"
    path.write_text(PBS.format("", had))
    found = read_trace(path, accounting=Choices(by="amounts"), processors=4)
    assert asked(found) == {"1.pbs": (2, {"per_host": {"cores": 8, "memory": GIB}})}


SWF = """\
; MaxNodes: 4
; MaxProcs: 128
1 0 0 60 6 -1 -1 6 120 1048576 1 1 1 -1 1 -1 -1 -1
2 50 0 60 -1 -1 -1 1 120 -1 1 1 1 -1 1 -1 -1 -1
3 100 0 60 -1 -1 -1 2 120 2048 1 1 1 -1 1 -1 -1 -1
4 200 0 60 -1 -1 -1 200 120 2048 1 1 1 -1 1 -1 -1 -1
7 200 0 60 -1 -1 -1 1 120 70000000 1 1 1 -1 1 -1 -1 -1
"""


def test_processors_of_swf_are_tasks(tmp_path: Path) -> None:
    path, out = tmp_path / "log.swf", tmp_path / "w.json"
    path.write_text(SWF)
    found = read_trace(path, accounting=Choices(by="amounts"))
    expected = {
        # Six tasks are on four hosts at most, since there are no more.
        "1": (4, {"tasks": 6, "per_task": {"cores": 1, "memory": GIB}}),
        "2": (1, {"per_host": {"cores": 1}}),
        "3": (2, {"tasks": 2, "per_task": {"cores": 1, "memory": 2 * MIB}}),
        "4": (4, {"tasks": 200, "per_task": {"cores": 1, "memory": 2 * MIB}}),
        "7": (1, {"per_host": {"cores": 1, "memory": 70_000_000 * 1024}}),
    }
    assert asked(found) == expected
    assert told(found) == {"no_memory": 1}
    assert (found.workload.processors, found.offered_load) == (4, None)
    write_workload(found.workload, out)
    assert asked_in(out) == expected

    # 128 cores, and 64 GiB a host: 4 and 7 have no room.
    told_of = Choices(by="amounts", nodes=nodes(tmp_path))
    found = read_trace(path, accounting=told_of)
    assert asked(found).keys() == {"1", "2", "3"}
    assert told(found) == {"no_memory": 1, "no_room": 2}
    # Shares of cores, for 60 of 100 s: 6, 1 and 2 of 128.
    assert found.offered_load == pytest.approx(9 / 128 * 60 / 100)
    path.write_text(SWF.replace("; MaxNodes: 4\n", ""))
    with pytest.raises(InputError, match="jobs ask for amounts of hosts, and the header has no"):
        read_trace(path, accounting=Choices(by="amounts"))


def asked_in(path: Path) -> dict[str, tuple[int, dict[str, Any]]]:
    jobs = json.loads(path.read_text())["jobs"]
    usual = ("id", "subtime", "res", "walltime", "profile", "user", "group", "queue")
    return {
        str(job["id"]): (job["res"], {n: v for n, v in job.items() if n not in usual})
        for job in jobs
    }


def test_a_platform_without_amounts_is_no_list_of_nodes() -> None:
    with pytest.raises(InputError, match="no host of .* has amounts that jobs share"):
        nodes_of_platform(read_platform("kth_sp2_100"))


def test_labels_of_a_platform_may_be_on_the_same_hosts(tmp_path: Path) -> None:
    """They may be features, so that the jobs of one may be taken alone."""
    path, table = tmp_path / "platform.xml", tmp_path / "jobs.csv"
    path.write_text(PLATFORM.replace('"gpu"', '"gpu,fast"'))
    table.write_text(TABLE)
    listed = nodes_of_platform(read_platform(path))
    choices = Choices(by="amounts", nodes=listed, partitions=("gpu",))
    stored = read_stored(table, what="a log")
    log = log_in(stored, "jobs.csv", choices, "csv", CsvForm(COLUMNS))
    found = convert_log(log, repairs=Repairs(too_wide="keep"))
    # The machine is the one host of the partition, whose label all its hosts have.
    assert found.workload.processors == 1
    assert asked(found)["b"] == (
        2,
        {"per_host": {"cores": 7, "memory": 500 * MIB, "gpus": 1}},
    )


def test_a_chunk_may_name_its_cores_first() -> None:
    chunks = chunks_in("ncpus=2:mem=1gb+3:ncpus=4")
    assert [(chunk.hosts, chunk.amounts["cores"]) for chunk in chunks] == [(1, 2), (3, 4)]
