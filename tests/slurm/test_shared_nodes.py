"""Partitions on the same nodes are one pool, however the nodes are told."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.slurm import read_nodes
from qops_batsim.traces import read_partitions
from qops_batsim.workload.accounting import Choices
from qops_batsim.workload.accounting.node_sizes import node_names, pools_of
from support.logs import read_log

HEAD = "JobID|Partition|State|Submit|Start|End|AllocCPUS|NodeList|Timelimit"
TEN = timedelta(minutes=10)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def listed(names: list[str], rng: random.Random) -> str:
    """Return nodes as Slurm writes them: ranges and numbers in brackets, zeros in front."""
    prefix = names[0].rstrip("0123456789")
    numbers = [name[len(prefix) :] for name in names]
    if len(names) == 1 or rng.random() < 0.2:
        return ",".join(names)
    parts: list[list[str]] = []
    for number in numbers:
        if parts and int(number) == int(parts[-1][-1]) + 1 and len(number) == len(parts[-1][0]):
            parts[-1].append(number)
        else:
            parts.append([number])
    ranges = (each[0] if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in parts)
    return f"{prefix}[{','.join(ranges)}]"


Nodes = dict[str, tuple[int, int, list[str]]]
"""Cores, GPUs and partitions of nodes."""


def random_nodes(rng: random.Random) -> Nodes:
    """Return nodes in blocks of a kind; some partitions have whole blocks in common."""
    names, blocks = [*"abcd"], {}
    digits, at = rng.choice([1, 3, 4]), 1
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice([1, 4, 64]), rng.choice([0, 2])
        partitions = sorted(rng.sample(names, rng.randint(1, 3)))
        for _ in range(rng.randint(1, 30)):
            blocks[f"n{at:0{digits}}"] = (*kind, partitions)
            at += rng.choice([1, 1, 1, 2])
    return blocks


def scontrol(nodes: Nodes, rng: random.Random) -> str:
    return "\n".join(
        f"NodeName={name} Arch=x86_64 CoresPerSocket=1\n   CPUAlloc=0 CPUTot={cores} CPULoad=0\n"
        f"   Gres={f'gpu:a100:{gpus}(S:0-1)' if gpus else '(null)'}\n   State=IDLE\n"
        f"   Partitions={','.join(parts)} \n   Reason=NodeName=x9 CPUTot=7 Partitions=q\n"
        for name, (cores, gpus, parts) in nodes.items()
    )


def by_kind(nodes: Nodes) -> dict[tuple[str, int, int], list[str]]:
    found: dict[tuple[str, int, int], list[str]] = {}
    for name, (cores, gpus, parts) in nodes.items():
        for part in parts:
            found.setdefault((part, cores, gpus), []).append(name)
    return found


def sinfo(nodes: Nodes, rng: random.Random) -> str:
    rows = ["PARTITION|CPUS|GRES|NODELIST"]
    for (part, cores, gpus), names in by_kind(nodes).items():
        cut = rng.randint(0, len(names))  # Some nodes are idle, others are not.
        for group in filter(None, (names[:cut], names[cut:])):
            rows.append(f"{part}*|{cores}|gpu:{gpus}|{listed(group, rng)}")
    return "\n".join(rows)


def sinfo_with_counts(nodes: Nodes, rng: random.Random) -> str:
    rows = [
        f"{part} {len(names)} {cores} gpu:{gpus} {listed(names, rng)}"
        for (part, cores, gpus), names in by_kind(nodes).items()
    ]
    return "\n".join(["Tue Nov 24 2026", "PARTITION NODES CPUS GRES NODELIST", *rows])


def sinfo_by_node(nodes: Nodes, rng: random.Random) -> str:
    rows = [
        f"{name}|{part}|{cores}|gpu:{gpus}"
        for name, (cores, gpus, parts) in nodes.items()
        for part in parts
    ]
    return "\n".join(["NODELIST|PARTITION|CPUS|GRES", *rows])


@pytest.mark.parametrize("form", [scontrol, sinfo, sinfo_with_counts, sinfo_by_node])
def test_nodes_of_several_partitions_count_once_in_every_format(form, tmp_path: Path) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        nodes = random_nodes(rng)
        found = read_nodes(written(tmp_path / "nodes.txt", form(nodes, rng)))
        chosen = rng.sample(sorted(found), rng.randint(1, len(found)))
        there = [each for each in nodes.values() if {*each[2]} & {*chosen}]
        assert found.together(chosen) == {
            "cores": sum(cores for cores, _, _ in there),
            "nodes": len(there),
            "gpus": sum(gpus for _, gpus, _ in there),
        }
        pools = pools_of(found.spans)
        assert sorted(name for pool in pools for name in pool) == sorted(found)
        for _, _, parts in nodes.values():
            assert any({*parts} <= {*pool} for pool in pools)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[0001-0128]", 128),
        ("n[1,3-5],m7", ["n1", "n3", "n4", "n5", "m7"]),
        ("rack[1-2]n[01-03]", 6),
        ("r[1-2]n[09-10]-ib,x", ["r1n09-ib", "r1n10-ib", "r2n09-ib", "r2n10-ib", "x"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("a1,a2", ["a1", "a2"]),
    ],
)  # fmt: skip
def test_a_list_of_nodes_in_every_place(text: str, names: list[str] | int, tmp_path: Path) -> None:
    """In `sinfo`, and in the accounting, where the nodes that ran jobs are the machine."""
    found = node_names(text)
    count = names if isinstance(names, int) else len(names)
    assert found == names if isinstance(names, list) else len({*found}) == names
    table = written(tmp_path / "s.txt", f"PARTITION|CPUS|GRES|NODELIST\np|2|(null)|{text}\n")
    assert read_nodes(table) == {"p": {"cores": 2 * count, "nodes": count, "gpus": 0}}


@pytest.mark.parametrize(
    "text",
    [
        "PARTITION|NODES|CPUS|GRES|NODELIST\np|4|1|(null)|n[1-3]",  # three are not four
        "PARTITION|CPUS|GRES|NODELIST\np|1|(null)|n[1-3,5-",  # cut by a width
        "PARTITION|NODES|CPUS|GRES\np|4|1|(null)\nq|4|1|(null)",  # the same four, or others
    ],
)
def test_lists_that_do_not_tell_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nodes.txt: (is no list|does not tell which nodes)"):
        read_nodes(written(tmp_path / "nodes.txt", text))


def test_one_partition_needs_no_names(tmp_path: Path) -> None:
    table = written(tmp_path / "s.txt", "PARTITION|NODES|CPUS|GRES\np|4|2|gpu:1\np|1|8|(null)")
    assert read_nodes(table) == {"p": {"cores": 16, "nodes": 5, "gpus": 4}}


def dump(path: Path, jobs: list[tuple[str, int, str]], copies: int = 60) -> Path:
    """Write a dump of jobs of ten minutes on all of their nodes of one core, often on its day.

    Told of each are its partition, day and nodes.
    """
    rows = [HEAD]
    for copy in range(copies):
        for part, day, nodes in jobs:
            begin = datetime(2024, 5, day, tzinfo=UTC) + copy * timedelta(minutes=20)
            dates = [f"{each:%Y-%m-%dT%H:%M:%S}" for each in (begin, begin, begin + TEN)]
            told = f"{len(rows)}|{part}|COMPLETED|{'|'.join(dates)}"
            rows.append(f"{told}|{len(node_names(nodes))}|{nodes}|2:00:00")
    return written(path, "\n".join(rows) + "\n")


def others(path: Path, *partitions: str) -> str:
    """Return what is said of the jobs of other partitions."""
    log = read_log(path, Choices(partitions=partitions), "sacct")
    (told,) = [each.description for each in log.left_out if each.rule == "other_partition"]
    return told


LISTS = {
    "scontrol": scontrol({f"n{at}": (1, 0, ["long", "short"]) for at in range(1, 9)},
                         random.Random(1)),
    "sinfo": "PARTITION|CPUS|GRES|NODELIST\nshort*|1|(null)|n[1-8]\nlong|1|(null)|n[1-8]",
}  # fmt: skip


@pytest.mark.parametrize("told", [*LISTS, "jobs"])
def test_partitions_on_the_same_nodes_are_one_machine(told: str, tmp_path: Path) -> None:
    """Eight nodes, in both partitions: case 31 in small."""
    jobs = [("short", 1, "n[1-4]"), ("long", 1, "n[5-8]"), ("short", 2, "n[5-8]")]
    jobs.append(("long", 3, "n[1-8]"))
    path = dump(tmp_path / "jobs.txt", jobs)
    nodes = read_nodes(written(tmp_path / "nodes.txt", LISTS[told])) if told in LISTS else None
    assert read_log(path, Choices(nodes=nodes), "sacct").size == 8
    parts, small = read_partitions(path, accounting=Choices(nodes=nodes, by="binding"))
    assert (list(parts), small) == (["long+short"], {})
    trace = parts["long+short"]
    assert (len(trace.workload.jobs), trace.workload.processors) == (240, 8)
    (word,) = [each for each in trace.repairs if each.rule == "shared_nodes"]
    assert (word.jobs, word.choice) == (240, "keep")
    assert "share nodes (long+short)" in word.description
    # One of them alone would leave out the jobs on its nodes.
    if nodes is not None:
        with pytest.raises(InputError, match="partitions long, short share nodes"):
            Choices(nodes=nodes, partitions=("short",))
    else:
        assert others(path, "short") == "of another partition, though on the same nodes (long)"
    both = Choices(nodes=nodes, partitions=("short", "long"))
    assert list(read_partitions(path, accounting=both)[0]) == ["long+short"]


def test_partitions_with_nodes_of_their_own_stay_apart(tmp_path: Path) -> None:
    """A node that changed its partition was never in both."""
    jobs = [("cpu", 1, "n[1-3]"), ("gpu", 1, "n[4-6]"), ("cpu", 9, "n[1-2]"), ("gpu", 20, "n[3-6]")]
    path = dump(tmp_path / "jobs.txt", jobs)
    assert list(read_partitions(path)[0]) == ["cpu", "gpu"]
    assert others(path, "gpu") == "of another partition"
    jobs.append(("cpu", 21, "n3"))
    assert list(read_partitions(dump(path, jobs))[0]) == ["cpu+gpu"]


def test_pools_against_a_search() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        spans = {
            name: {
                node: (first, first + rng.randint(1, 9))
                for node in rng.sample(range(12), rng.randint(0, 5))
                for first in [rng.randint(0, 20)]
            }
            for name in "abcdef"
        }

        def touch(one: str, two: str, spans=spans) -> bool:
            both = spans[one].keys() & spans[two].keys()
            return any(spans[one][n][0] < spans[two][n][1] and spans[two][n][0] < spans[one][n][1]
                       for n in both)  # fmt: skip

        expected, left = [], set(spans)
        while left:
            pool, new = set(), {min(left)}
            while new:
                pool |= new
                new = {b for a in new for b in left - pool if touch(a, b)}
            expected.append(sorted(pool))
            left -= pool
        assert pools_of(spans) == sorted(expected)
