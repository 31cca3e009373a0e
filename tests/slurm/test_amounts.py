"""Slurm's accounting by amounts: what jobs ask of each node, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.slurm import read_nodes
from qops_batsim.slurm.reservations import reservations_of, windows_of
from qops_batsim.traces import read_trace
from qops_batsim.workload import Conversion, Repairs
from qops_batsim.workload.accounting import Choices
from support.sacct_dumps import OWN_WORDS, ZONE, make_dump

GIB = 1 << 30
MIB = 1 << 20

NODES = """\
NodeName=c1 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUEfctv=32 CPUTot=32 CPULoad=0.01
   AvailableFeatures=ib,avx512 ActiveFeatures=ib,avx512
   Gres=(null)
   RealMemory=128000 AllocMem=0 State=IDLE Weight=1
   Partitions=main,all

NodeName=c2 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUEfctv=32 CPUTot=32 CPULoad=0.01
   AvailableFeatures=ib ActiveFeatures=ib
   Gres=(null)
   RealMemory=64000 AllocMem=0 State=IDLE Weight=1
   Partitions=main,all

NodeName=g1 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.01
   AvailableFeatures=(null)
   Gres=gpu:a100:4(S:0-1),gpu:v100:2,fpga:1,shard:a100:16
   RealMemory=512000 MemSpecLimit=2000 AllocMem=0 State=IDLE Weight=10
   Partitions=gpu,all
"""

HEAD = (
    "JobID|Partition|State|Submit|Start|End|AllocCPUS|AllocNodes|ReqNodes|ReqTRES|AllocTRES|ReqMem|"
    "NTasks|NodeList|Constraints|Licenses|SubmitLine"
)
DATES = "2024-05-01T10:00:00|2024-05-01T10:01:00|2024-05-01T11:01:00"


def row(
    job: str,
    alloc: str = "",
    req: str = "",
    *,
    partition: str = "main",
    memory: str = "",
    tasks: str = "",
    nodes: str = "",
    features: str = "",
    licences: str = "",
    line: str = "",
) -> str:
    amounts = dict(each.split("=") for each in alloc.split(",") if "=" in each)
    cells = (amounts.get("cpu", ""), amounts.get("node", ""), "", req, alloc, memory, tasks, nodes)
    return "|".join((job, partition, "COMPLETED", DATES, *cells, features, licences, line))


def imported(
    tmp_path: Path, rows: list[str], *, knows_nodes: bool = True, **more: Any
) -> Conversion:
    path, listed = tmp_path / "sacct.txt", tmp_path / "nodes.txt"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    listed.write_text(NODES)
    choices = Choices(by="amounts", nodes=read_nodes(listed) if knows_nodes else None)
    return read_trace(path, accounting=choices, **more)


def asked(found: Conversion) -> dict[str, tuple[int, dict[str, Any]]]:
    fields = ("per_host", "tasks", "per_task", "hosts_with", "exclusive", "licences", "parts")
    return {
        job.id: (job.processors, {name: job.fields[name] for name in fields if name in job.fields})
        for job in found.workload.jobs
    }


def told(found: Conversion) -> dict[str, int]:
    return {
        each.rule: each.jobs
        for each in found.repairs
        if each.jobs and each.rule != "no_requested_time"
    }


MAIN = {"hosts_with": ["main"]}


@pytest.mark.parametrize(
    ("cells", "hosts", "fields", "rules"),
    [
        # What was allocated on all nodes, in equal parts.
        (
            {"alloc": "cpu=16,mem=32G,node=2", "req": "cpu=16,mem=32G,node=2"},
            2,
            {"per_host": {"cores": 8, "memory": 16 * GIB}},
            {},
        ),
        (
            {"alloc": "cpu=13,mem=1000M,node=2"},
            2,
            {"per_host": {"cores": 7, "memory": 500 * MIB}},
            {"uneven": 1},
        ),
        # Memory of each core, of each node, of the job; fractions as Slurm prints them.
        (
            {"alloc": "cpu=13,node=2", "memory": "4000Mc"},
            2,
            {"per_host": {"cores": 7, "memory": 28000 * MIB}},
            {"uneven": 1},
        ),
        (
            {"alloc": "cpu=16,node=2", "memory": "1.50Gn"},
            2,
            {"per_host": {"cores": 8, "memory": 1536 * MIB}},
            {},
        ),
        (
            {"alloc": "cpu=16,node=2", "memory": "3G"},
            2,
            {"per_host": {"cores": 8, "memory": 1536 * MIB}},
            {},
        ),
        ({"alloc": "cpu=4,node=1"}, 1, {"per_host": {"cores": 4}}, {"no_memory": 1}),
        # Where no number of nodes is told, those on which it ran.
        (
            {"alloc": "cpu=4,mem=4G", "nodes": "c1"},
            1,
            {"per_host": {"cores": 4, "memory": 4 * GIB}},
            {},
        ),
        (
            {"alloc": "cpu=32,mem=2G,node=1", "line": "sbatch x --exclusive"},
            1,
            {"per_host": {"cores": 32, "memory": 2 * GIB}, "exclusive": True},
            {"exclusive": 1},
        ),
        # No memory is managed here: 0 is no request. All memory of a node is that of the least.
        (
            {"alloc": "cpu=4,node=1", "memory": "0n"},
            1,
            {"per_host": {"cores": 4}},
            {"no_memory": 1},
        ),
        (
            {"alloc": "cpu=8,node=2", "nodes": "c[1-2]", "line": "sbatch --mem=0 -N 2 x"},
            2,
            {"per_host": {"cores": 4, "memory": 64000 * MIB}},
            {"all_memory": 1},
        ),
        (
            {"alloc": "cpu=4,node=1", "line": "sbatch --mem=0 x"},
            1,
            {"per_host": {"cores": 4, "memory": 64000 * MIB}},
            {"all_memory": 1},
        ),
        # Hosts of its own: by the command, or all cores of c1 though four were asked for.
        (
            {
                "alloc": "cpu=64,mem=2G,node=2",
                "req": "cpu=2,mem=2G,node=2",
                "line": "sbatch --exclusive -N2",
            },
            2,
            {"per_host": {"cores": 1, "memory": GIB}, "exclusive": True},
            {"exclusive": 1},
        ),
        (
            {"alloc": "cpu=32,mem=2G,node=1", "req": "cpu=4,mem=2G,node=1", "nodes": "c1"},
            1,
            {"per_host": {"cores": 4, "memory": 2 * GIB}, "exclusive": True},
            {"exclusive": 1},
        ),
        (
            {"alloc": "cpu=32,mem=2G,node=1", "req": "cpu=32,mem=2G,node=1", "nodes": "c1"},
            1,
            {"per_host": {"cores": 32, "memory": 2 * GIB}},
            {},
        ),
        # Tasks that may share nodes: who asked for two nodes did not ask so.
        (
            {"alloc": "cpu=40,mem=40G,node=2", "req": "cpu=40,mem=40G,node=1", "tasks": "20"},
            2,
            {"tasks": 20, "per_task": {"cores": 2, "memory": 2 * GIB}},
            {},
        ),
        (
            {"alloc": "cpu=40,mem=40G,node=2", "req": "cpu=40,mem=40G,node=2", "tasks": "20"},
            2,
            {"per_host": {"cores": 20, "memory": 20 * GIB}},
            {},
        ),
        # Features: both are those of c1.
        (
            {"alloc": "cpu=4,mem=1G,node=1", "features": "ib&avx512"},
            1,
            {"per_host": {"cores": 4, "memory": GIB}, "hosts_with": ["main", "ib", "avx512"]},
            {},
        ),
        (
            {"alloc": "cpu=4,mem=1G,node=1", "features": "ib*2"},
            1,
            {"per_host": {"cores": 4, "memory": GIB}},
            {"constraints": 1},
        ),
        (
            {"alloc": "cpu=4,mem=1G,node=1", "licences": "matlab:2,ansys@server"},
            1,
            {"per_host": {"cores": 4, "memory": GIB}, "licences": {"matlab": 2, "ansys": 1}},
            {},
        ),
    ],
)
def test_a_job_asks_of_each_node(
    tmp_path: Path, cells: dict[str, str], hosts: int, fields: dict[str, Any], rules: dict[str, int]
) -> None:
    found = imported(tmp_path, [row("7", **cells)])
    assert asked(found) == {"7": (hosts, MAIN | fields)}
    assert told(found) == rules
    assert found.workload.processors == 3


@pytest.mark.parametrize(
    ("alloc", "req", "amounts", "rules"),
    [
        (
            "cpu=8,mem=8G,node=1,gres/gpu=2,gres/gpu:a100=2",
            "cpu=8,gres/gpu=2,gres/gpu:a100=2",
            {"gpus": 2, "gpus:a100": 2},
            {},
        ),
        # It got a type that it had not asked for.
        ("cpu=8,mem=8G,node=1,gres/gpu=1,gres/gpu:v100=1", "cpu=8,gres/gpu=1", {"gpus": 1}, {}),
        # Without the request, what was given counts.
        (
            "cpu=8,mem=8G,node=1,gres/gpu=1,gres/gpu:v100=1",
            "",
            {"gpus": 1, "gpus:v100": 1},
            {},
        ),
        (
            "cpu=8,mem=8G,node=1,gres/gpu:a100=3,gres/gpu:v100=1",
            "cpu=8,gres/gpu:a100=3,gres/gpu:v100=1",
            {"gpus": 4, "gpus:a100": 3, "gpus:v100": 1},
            {},
        ),
        ("cpu=8,mem=8G,node=1,gres/shard=4", "cpu=8,gres/shard=4", {}, {"shards": 1}),
        ("cpu=8,mem=8G,node=1,gres/fpga=1", "cpu=8,gres/fpga=1", {"fpga": 1}, {}),
        ("cpu=8,mem=8G,node=1,gres/nvme=1", "cpu=8,gres/nvme=1", {}, {"other_kinds": 1}),
    ],
)
def test_gpus_have_a_type_if_the_request_has(
    tmp_path: Path, alloc: str, req: str, amounts: dict[str, int], rules: dict[str, int]
) -> None:
    found = imported(tmp_path, [row("7", alloc, req, partition="gpu")])
    per_host = {"cores": 8, "memory": 8 * GIB, **amounts}
    assert asked(found) == {"7": (1, {"per_host": per_host, "hosts_with": ["gpu"]})}
    assert told(found) == rules


def test_jobs_that_no_nodes_can_run_are_left_out(tmp_path: Path) -> None:
    rows = [
        row("1", "cpu=8,mem=8G,node=1,gres/gpu=7", "gres/gpu=7", partition="gpu"),
        row("2", "cpu=8,mem=130G,node=1"),
        row("3", "cpu=9,mem=9G,node=3"),
        row("4", "cpu=8,mem=505G,node=1", partition="all"),
        row("5", "cpu=8,mem=8G,node=1", partition="gone"),
        row("6", "cpu=8,mem=498G,node=1", partition="gpu"),
        row("8", "cpu=8,node=1", partition="gone", line="sbatch --mem=0 x"),
        row("7", "cpu=8,mem=8G,node=1,gres/gpu=7", "gres/gpu:h100=1", partition="gpu"),
    ]
    found = imported(tmp_path, rows)
    # 510,000 MB of g1 are for jobs; all nodes are in all.
    assert asked(found) == {
        "5": (1, {"per_host": {"cores": 8, "memory": 8 * GIB}}),
        "6": (1, {"per_host": {"cores": 8, "memory": 498 * GIB}, "hosts_with": ["gpu"]}),
        "8": (1, {"per_host": {"cores": 8}}),
    }
    assert told(found) == {"any_partition": 2, "all_memory_unknown": 1, "no_room": 5}
    assert len(imported(tmp_path, rows, repairs=Repairs(too_wide="keep")).workload.jobs) == 8


def test_components_of_a_heterogeneous_job_are_parts(tmp_path: Path) -> None:
    rows = [
        row("20+0", "cpu=4,mem=4G,node=1", "cpu=4,node=1", licences="matlab:1"),
        row(
            "20+1",
            "cpu=16,mem=16G,node=1,gres/gpu=2",
            "cpu=16,gres/gpu=2",
            partition="gpu",
            licences="matlab:2",
        ),
    ]
    parts = [
        {"res": 1, "per_host": {"cores": 4, "memory": 4 * GIB}, "hosts_with": ["main"]},
        {"res": 1, "per_host": {"cores": 16, "memory": 16 * GIB, "gpus": 2}, "hosts_with": ["gpu"]},
    ]
    found = imported(tmp_path, rows)
    assert asked(found) == {"20": (2, {"parts": parts, "licences": {"matlab": 3}})}
    assert told(found) == {"het_parts": 2}


def test_tasks_are_those_of_a_step_with_all_cores(tmp_path: Path) -> None:
    req = "cpu=40,mem=40G,node=1"
    rows = [
        row("1", "cpu=40,mem=40G,node=2", req),
        row("1.batch", "cpu=20,mem=20G,node=1", tasks="1"),
        row("1.0", "cpu=40,mem=40G,node=2", tasks="40"),
        row("2", "cpu=40,mem=40G,node=2", req),
        row("2.0", "cpu=10,mem=10G,node=2", tasks="5"),
        row("3", "cpu=40,mem=40G,node=2,gres/gpu=2", req, partition="all"),
        row("3.0", "cpu=40,mem=40G,node=2", tasks="40"),
    ]
    found = imported(tmp_path, rows, repairs=Repairs(too_wide="keep"))
    assert asked(found) == {
        "1": (2, MAIN | {"tasks": 40, "per_task": {"cores": 1, "memory": GIB}}),
        "2": (2, MAIN | {"per_host": {"cores": 20, "memory": 20 * GIB}}),
        # Two GPUs are not divided among 40 tasks.
        "3": (2, {"per_host": {"cores": 20, "memory": 20 * GIB, "gpus": 1}}),
    }


def test_resized_jobs_ask_for_what_they_had_on_most_nodes(tmp_path: Path) -> None:
    def stretch(state: str, begin: str, end: str, amounts: str) -> str:
        dates = f"2024-05-01T10:00:00|2024-05-01T{begin}:00|2024-05-01T{end}:00"
        return row("9", amounts).replace("COMPLETED", state).replace(DATES, dates)

    rows = [
        stretch("RESIZING", "10:01", "10:31", "cpu=16,mem=32G,node=2"),
        stretch("COMPLETED", "10:31", "11:01", "cpu=4,mem=16G,node=1"),
    ]
    found = imported(tmp_path, rows)
    assert asked(found) == {"9": (2, MAIN | {"per_host": {"cores": 8, "memory": 16 * GIB}})}


def test_without_nodes_the_machine_is_where_jobs_ran(tmp_path: Path) -> None:
    rows = [
        row("1", "cpu=4,mem=4G,node=2", nodes="c[1-2]", features="ib"),
        row("2", "cpu=4,node=1", nodes="g1", partition="gpu", line="sbatch --mem=0 x"),
    ]
    found = imported(tmp_path, rows, knows_nodes=False)
    assert asked(found) == {
        "1": (2, {"per_host": {"cores": 2, "memory": 2 * GIB}}),
        "2": (1, {"per_host": {"cores": 4}}),
    }
    assert told(found) == {"all_memory_unknown": 1, "no_nodes": 2}
    assert found.workload.processors == 3
    assert found.size_is == "the nodes on which jobs ran"
    with pytest.raises(InputError, match="ReqMem is '4X'; memory such as 4000M"):
        imported(tmp_path, [row("1", "cpu=4,node=1", memory="4X")])


def test_of_chosen_partitions_the_nodes_are_the_machine(tmp_path: Path) -> None:
    path, listed = tmp_path / "sacct.txt", tmp_path / "nodes.txt"
    path.write_text(f"{HEAD}\n{row('1', 'cpu=4,mem=8G,node=1')}\n")
    listed.write_text(NODES.replace(",all", ""))
    choices = Choices(by="amounts", nodes=read_nodes(listed), partitions=("main",))
    found = read_trace(path, accounting=choices)
    assert found.workload.processors == 2
    assert asked(found) == {"1": (1, {"per_host": {"cores": 4, "memory": 8 * GIB}})}


def test_a_dump_in_json_says_the_same(tmp_path: Path) -> None:
    path, listed = tmp_path / "sacct.json", tmp_path / "nodes.txt"
    listed.write_text(NODES)

    def resources(*amounts: tuple[str, str | None, int]) -> list[dict[str, Any]]:
        return [{"type": kind, "name": name, "count": count} for kind, name, count in amounts]

    job = {
        "job_id": 7,
        "state": ["COMPLETED"],
        "time": {"submission": 1714550400, "start": 1714550460, "end": 1714554060, "elapsed": 3600},
        "partition": "gpu",
        "nodes": "g1",
        "allocation_nodes": 1,
        "constraints": "",
        "licenses": "matlab:1",
        "required": {"CPUs": 8, "memory_per_cpu": {"set": True, "number": 1024}},
        "tres": {
            "allocated": resources(("cpu", None, 8), ("node", None, 1), ("gres", "gpu:a100", 2)),
            "requested": resources(("cpu", None, 8), ("gres", "gpu:a100", 2)),
        },
        "steps": [],
    }
    step = {"step": {"id": "8.0"}, "tasks": {"count": 4}, "tres": {"allocated": []}}
    step["tres"] = {"allocated": resources(("cpu", None, 8))}
    allocated = resources(("cpu", None, 8), ("node", None, 2), ("mem", None, 8192))
    tasks = job | {
        "job_id": 8,
        "partition": "main",
        "nodes": "c[1-2]",
        "allocation_nodes": 2,
        "licenses": "",
        "tres": {"allocated": allocated, "requested": resources(("node", None, 1))},
        "required": {"CPUs": 8},
        "steps": [{"step": {"id": "8.batch"}, "tasks": {"count": 1}}, step],
    }
    path.write_text(json.dumps({"jobs": [job, tasks]}))
    found = read_trace(path, accounting=Choices(by="amounts", nodes=read_nodes(listed)))
    per_host = {"cores": 8, "memory": 8 * GIB, "gpus": 2, "gpus:a100": 2}
    fields = {"per_host": per_host, "hosts_with": ["gpu"], "licences": {"matlab": 1}}
    of_tasks = {"tasks": 4, "per_task": {"cores": 2, "memory": 2 * GIB}}
    assert asked(found) == {"7": (1, fields), "8": (2, MAIN | of_tasks)}


def test_what_nodes_have_is_read_from_all_lists(tmp_path: Path) -> None:
    listed = tmp_path / "nodes.txt"
    listed.write_text(NODES)
    machine = read_nodes(listed).read_machine()
    assert machine is not None
    assert machine.names == ("c1", "c2", "g1")
    assert machine.kinds == ("cores", "memory", "gpus", "fpga", "gpus:a100", "gpus:v100")
    assert machine.amounts[2] == (64, 510_000 * MIB, 6, 1, 4, 2)
    assert machine.labels == {"all": 7, "avx512": 1, "gpu": 4, "ib": 3, "main": 3}
    assert machine.weights == (1, 1, 10)

    listed.write_text(
        "NODELIST|PARTITION|CPUS|GRES|STATE|MEMORY|AVAIL_FEATURES|WEIGHT\n"
        "c[1-2]|main*|32|(null)|idle|64000+|ib|1\n"
        "c[1-2]|all|32|(null)|idle|64000+|ib|1\n"
        "g1|all|64|gpu:v100:2(S:0)|idle|512000|(null)|10\n"
    )
    machine = read_nodes(listed).read_machine()
    assert machine is not None
    assert machine.amounts[1:] == ((32, 64_000 * MIB, 0, 0), (64, 512_000 * MIB, 2, 2))
    assert machine.labels == {"all": 7, "ib": 3, "main": 3}

    node = {
        "name": "g1", "cpus": 64, "effective_cpus": 64, "real_memory": 1000, "gres": "gpu:2",
        "specialized_memory": 24, "features": ["x"], "partitions": ["a"], "state": ["IDLE"],
        "weight": 3,
    }  # fmt: skip
    listed.write_text(json.dumps({"nodes": [node]}))
    machine = read_nodes(listed).read_machine()
    assert machine is not None
    assert machine.amounts == ((64, 976 * MIB, 2),)
    assert (machine.labels, machine.weights) == ({"a": 1, "x": 1}, (3,))

    # Nodes without names are counted only.
    listed.write_text("PARTITION|NODES|CPUS|GRES\nmain|4|32|(null)\n")
    assert read_nodes(listed).read_machine() is None


@settings(max_examples=settings.default.max_examples // 8)
@given(st.integers(0, 10**6))
def test_hosts_are_those_that_nodes_count(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """By amounts, jobs have as many hosts, and on them no core fewer, than they are counted to."""
    dump = make_dump(seed)
    path = tmp_path_factory.mktemp("dump") / "dump.txt"
    path.write_text(dump.text())
    found: dict[str, dict[str, Any]] = {}
    for by in ("cores", "nodes", "amounts"):
        choices = Choices(by=by, time_zone=ZONE, state_names=OWN_WORDS)
        jobs = read_trace(path, accounting=choices, processors=10**6).workload.jobs
        found[by] = {job.id: job for job in jobs}

    assert found["amounts"].keys() == found["nodes"].keys() == found["cores"].keys()
    for job_id, job in found["amounts"].items():
        assert job.processors == found["nodes"][job_id].processors
        fields = {"res": job.processors, **job.fields}
        cores = sum(
            part["res"] * part["per_host"]["cores"] for part in fields.get("parts", [fields])
        )
        assert 0 <= cores - found["cores"][job_id].processors < job.processors


def test_a_reservation_takes_the_hosts_of_its_nodes(tmp_path: Path) -> None:
    found = imported(tmp_path, [row("1", "cpu=4,mem=8G,node=1")])
    choices = Choices(by="amounts", nodes=read_nodes(tmp_path / "nodes.txt"))
    dates = "StartTime=2024-05-01T10:10:00 EndTime=2024-05-01T10:20:00"
    text = f"ReservationName={{}} {dates} Nodes={{}} Flags=MAINT\n"
    listed = text.format("named", "c[1-2]") + text.format("other", "x9")
    windows, _ = windows_of(reservations_of(listed, "here", choices), found, choices)
    # Of the nodes c1, c2 and g1, x9 is none: the highest that is not away.
    assert [(window.name, window.hosts) for window in windows] == [("named", 3), ("other", 4)]
