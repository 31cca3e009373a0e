"""States of nodes in text, tables and JSON of Slurm: who is away, and until when."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.slurm.node_states import read_state
from qops_batsim.slurm.nodes import nodes_of
from qops_batsim.workload.accounting.node_sizes import NodeAway, NodeSizes

DRAIN, MAINTENANCE, SILENT = ("DRAIN",), ("MAINTENANCE",), ("NOT_RESPONDING",)
SCONTROL = [
    ("IDLE", ()),
    ("MIXED", ()),
    ("ALLOCATED+COMPLETING", ()),
    ("IDLE+PLANNED", ()),
    ("MIXED+PLANNED", ()),
    ("IDLE+DYNAMIC_NORM", ()),
    ("IDLE+CLOUD+POWERED_DOWN", ()),
    ("IDLE+CLOUD+POWERING_DOWN", ()),
    ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", ()),
    ("IDLE*+CLOUD+POWER", ()),
    ("MIXED+REBOOT_REQUESTED", ()),
    ("IDLE+DRAIN", DRAIN),
    ("IDLE*+DRAIN", (*DRAIN, *SILENT)),
    ("ALLOCATED+DRAIN", DRAIN),
    ("DOWN+DRAIN+CLOUD+POWERED_DOWN", ("DOWN", "DRAIN")),
    ("DOWN*", ("DOWN", "NOT_RESPONDING")),
    ("IDLE+NOT_RESPONDING", SILENT),
    ("IDLE+DYNAMIC_NORM+MAINTENANCE+RESERVED", (*MAINTENANCE, "RESERVED")),
    ("IDLE+MAINT", MAINTENANCE),
    ("IDLE+RESERVED", ("RESERVED",)),
    ("IDLE+FAIL", ("FAIL",)),
    ("MIXED+FAIL", ("FAIL",)),
    ("IDLE+INVALID_REG", ("INVALID_REG",)),
    ("IDLE+REBOOT_REQUESTED", ("REBOOT_REQUESTED",)),
    ("ALLOCATED+REBOOT_ISSUED", ("REBOOT_ISSUED",)),
    ("IDLE+BLOCKED", ("BLOCKED",)),
    ("FUTURE", ("FUTURE",)),
    ("UNKNOWN", ("UNKNOWN",)),
    ("ERROR", ("ERROR",)),
]
SINFO = [
    *((word, ()) for word in ("idle", "alloc", "allocated+", "mix-", "mixed", "comp", "plnd")),
    *((word, ()) for word in ("idle~", "idle#", "mix#", "idle%", "mixed!", "alloc@", "planned")),
    *((word, DRAIN) for word in ("drain", "drained", "drng", "draining", "drain~", "draini")),
    *((word, (*DRAIN, *SILENT)) for word in ("drain*", "drng*")),
    *((word, MAINTENANCE) for word in ("maint", "alloc$", "mix$", "mainten")),
    *((word, SILENT) for word in ("idle*", "alloc*", "mix*")),
    *((word, ("DOWN",)) for word in ("down", "down~")),
    *((word, ("FAIL",)) for word in ("fail", "failg", "failing")),
    *((word, ("REBOOT_REQUESTED",)) for word in ("boot", "reboot")),
    *((word, ("REBOOT_ISSUED", "REBOOT_REQUESTED")) for word in ("boot^", "reboot^")),
    *((word, ("INVALID_REG",)) for word in ("inval", "INVAL")),
    *((word, ("RESERVED",)) for word in ("resv", "reserved")),
    ("unk*", ("UNKNOWN", "NOT_RESPONDING")),
    ("futr", ("FUTURE",)),
]


@pytest.mark.parametrize(("told", "why"), [*SCONTROL, *SINFO])
def test_what_slurm_does_not_use_is_away(told: str, why: tuple[str, ...]) -> None:
    state = read_state(told)
    assert (state.away, state.unknown) == (why, ())
    assert read_state(told.split("+")).away == why


def record(state: str, **further: str) -> str:
    fields = {"State": state, "Partitions": "cpu", **further}
    return (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=16\n   CPUAlloc=8 CPUEfctv=32 CPUTot=32\n"
        "   Gres=(null)\n   OS=Linux 5.14.0 #1 SMP Mon May 4 State=DOWN 2026\n   "
        + " ".join(f"{name}={value}" for name, value in fields.items())
        + "\n   Reason=fans CPUTot=64 State=IDLE ResumeAfterTime=x [root@2026-06-20 10:00:00]\n"
    )


def away(text: str) -> list[NodeAway]:
    sizes = nodes_of(text, "nodes")
    assert sizes == {"cpu": {"cores": 32, "nodes": 1, "gpus": 0}}
    assert not sizes.unsure
    return sizes.away(sizes)


@pytest.mark.parametrize(("told", "why"), SCONTROL)
def test_text_and_json_of_scontrol_tell_the_same(told: str, why: tuple[str, ...]) -> None:
    """Flags stand with the state, or, before Slurm 23.02, by themselves."""
    base, *flags = told.split("+")
    node = {"name": "n1", "cpus": 32, "alloc_cpus": 8, "gres": "", "partitions": ["cpu"]}
    new = node | {"state": [base, *flags], "resume_after": {"set": False, "number": 0}}
    old = node | {"state": base.lower(), "state_flags": flags}
    texts = [record(told), record(told).replace("\n   ", " ")]
    texts += [json.dumps({"meta": {}, "errors": [], "nodes": [each]}) for each in (new, old)]
    expected = [why] if why else []
    assert [[each.why for each in away(text)] for text in texts] == [expected] * 4


@pytest.mark.parametrize(("told", "why"), SINFO)
def test_tables_and_json_of_sinfo_tell_the_same(told: str, why: tuple[str, ...]) -> None:
    """The state of a partition stands in the column AVAIL."""
    long = "Sat Jun 20 10:00:00 2026\nPARTITION AVAIL NODES STATE CPUS GRES NODELIST REASON\n"
    texts = [
        f"NODELIST|PARTITION|CPUS|GRES|STATE\nn1|cpu*|32|(null)|{told}\n",
        f"PARTITION|HOSTNAMES|CPUS|STATE\ncpu|n1|32|{told}\n",
        f"{long}cpu* down 1 {told} 32 (null) n1 bad fans, down\n",
    ]
    nodes = {"nodes": ["n1"], "total": 1}
    row = {"node": {"state": told.split("+")}, "nodes": nodes, "gres": {"total": ""}}
    row |= {"cpus": {"minimum": 32, "maximum": 32}, "partition": {"name": "cpu"}}
    texts.append(json.dumps({"sinfo": [row], "errors": []}))
    expected = [why] if why else []
    assert [[each.why for each in away(text)] for text in texts] == [expected] * 4


@pytest.mark.parametrize(
    ("text", "busy"),
    [
        (record("MIXED+DRAIN"), 8),
        (record("DOWN"), 0),
        ("PARTITION|CPUS|GRES|STATE|NODELIST\ncpu|32|(null)|drng|n1\n", None),
        ("PARTITION|CPUS|GRES|STATE|NODELIST\ncpu|32|(null)|drain|n1\n", 0),
        ("PARTITION|CPUS|GRES|STATE|CPUS(A/I/O/T)|NODELIST\ncpu|32|(null)|drng|8/0/24/32|n1", 8),
    ],
)
def test_processors_in_use_on_nodes_that_are_away(text: str, busy: int | None) -> None:
    (found,) = away(text)
    assert found.busy == busy


def test_states_that_are_not_told_or_not_known_are_said() -> None:
    untold = nodes_of("PARTITION|CPUS|GRES|NODELIST\ncpu|32|(null)|n[1-3]\n", "nodes")
    assert untold.unsure == {"nodes whose state is not told, counted as if Slurm used them": 3}
    twice = "PARTITION|CPUS|GRES|NODELIST\na|32|(null)|n[1-3]\nb|32|(null)|n[2-3]\n"
    assert nodes_of(twice, "nodes").unsure == untold.unsure
    new = nodes_of(record("IDLE+LUKEWARM"), "nodes")
    told = "nodes in a state that is not known (LUKEWARM), counted as there"
    assert (new.away(new), new.unsure) == ([], {told: 1})


def test_nodes_of_several_partitions_are_away_once() -> None:
    text = "PARTITION|CPUS|GRES|STATE|NODELIST\n" + "".join(
        f"{name}|4|gpu:2|{state}|{nodes}\n"
        for name in ("a", "b")
        for state, nodes in (("idle", "n1"), ("down*", "n[2-3]"), ("resv", "n4"))
    )
    sizes = nodes_of(text, "nodes")
    assert len(sizes.away(["a"])) == len(sizes.away(["a", "b"])) == 3
    # n2 has an equal part of what is in use on n1 and n2, and is one node.
    text = "PARTITION|CPUS|GRES|STATE|CPUS(A/I/O/T)|NODELIST\n"
    text += "a|4|(null)|drng|5/0/3/8|n[1-2]\nb|4|(null)|drng|4/0/0/4|n2\n"
    two = nodes_of(text, "nodes")
    assert [(each.node[0], each.busy) for each in two.away(two)] == [("n1", 2), ("n2", 4)]
    # Where jobs of reservations count, their nodes are there.
    assert [each.node[0] for each in sizes.away(["a"], reserved=False)] == ["n2", "n3"]


RESERVATION = """
ReservationName=fix StartTime=2026-06-20T10:00:00 EndTime=2026-06-21T09:00:00 Duration=23:00:00
   Nodes=n[1-2] NodeCnt=2 CoreCnt=64 Features=(null) PartitionName=(null) Flags=MAINT
     NodeName=n1 CoreIDs=0-31
   TRES=cpu=64
   Users=root Accounts=(null) Licenses=(null) State={state} BurstBuffer=(null)
"""
END = datetime(2026, 6, 21, 9).timestamp()


def until(text: str) -> float | None:
    (found,) = away(text)
    return found.until


def test_the_end_of_an_active_reservation_is_that_of_maintenance() -> None:
    active, later = (RESERVATION.format(state=state) for state in ("ACTIVE", "INACTIVE"))
    maintenance = record("IDLE+MAINTENANCE+RESERVED")
    assert until(maintenance) is None
    assert until(maintenance + active) == END
    assert until((maintenance + active).replace("\n   ", " ")) == END
    assert until(maintenance + active.replace("T09", " 09")) == END
    assert until(maintenance + later) is None
    assert until(record("IDLE+DRAIN+MAINTENANCE") + active) is None
    elsewhere = active.replace("Nodes=n[1-2]", "Nodes=n[7-8]")
    assert until(maintenance + elsewhere) is None
    assert until(maintenance + "   ReservationName=fix\n" + elsewhere) == END


def test_a_node_may_be_resumed_at_a_date() -> None:
    resumed = {"ResumeAfterTime": "2026-06-21T09:00:00"}
    assert until(record("DOWN+DRAIN", **resumed)) == END
    assert until(record("IDLE+DRAIN", ResumeAfterTime="None")) is None
    assert until(record("IDLE+DRAIN+INVALID_REG", **resumed)) is None
    node = {"name": "n1", "cpus": 32, "partitions": ["cpu"], "state": ["DOWN"]}
    node |= {"resume_after": {"set": True, "infinite": False, "number": int(END)}}
    assert until(json.dumps({"nodes": [node]})) == END


@pytest.mark.parametrize(
    ("date", "text"),
    [
        ("21 Jun 09:00", record("DOWN", ResumeAfterTime="21 Jun 09:00")),
        ("1999-06-21T09:00:00", record("DOWN", ResumeAfterTime="1999-06-21T09:00:00")),
        ("Tomorr 09:00", record("IDLE+MAINT") + RESERVATION.format(state="ACTIVE")),
    ],
)
def test_ends_that_are_not_sure_are_refused(date: str, text: str) -> None:
    text = text.replace("EndTime=2026-06-21T09:00:00", "EndTime=Tomorr 09:00")
    with pytest.raises(InputError, match=f"nodes: .*Time is '{date}'; .*SLURM_TIME_FORMAT"):
        nodes_of(text, "nodes")


@pytest.mark.parametrize(
    "text",
    [
        '{"nodes": [{"name": "n1", "state": ["IDLE"]}]}',
        '{"nodes": 7}',
        '{"sinfo": [{"cpus": {"minimum": 1, "maximum": 2}}]}',
        '{"jobs": []}',
        "{",
        '{"nodes": [{"name": "n1", "cpus": 4, "partitions": ["a"], "state": 3}]}',
        '{"nodes": []}',
        '{"nodes": [{"name": "n1", "cpus": 4, "partitions": ["a"], "state": [3]}]}',
        '{"nodes": [[]]}',
        '{"nodes": [{"name": "n", "cpus": 4, "partitions": [7], "state": ["IDLE"]}]}',
        '{"nodes": [{"name": "n", "cpus": 4, "alloc_cpus": "x", "partitions": ["a"],'
        ' "state": ["IDLE", "DRAIN"]}]}',
    ],
)
def test_json_that_is_no_list_of_nodes_is_one_error(text: str) -> None:
    with pytest.raises(InputError, match="^nodes: "):
        nodes_of(text, "nodes")


def test_json_of_a_slurm_that_does_not_answer_is_one_error(tmp_path: Path) -> None:
    text = json.dumps({"errors": [{"error": "Unable to contact slurm controller"}], "nodes": []})
    with pytest.raises(InputError, match="nodes: Slurm failed .*Unable to contact"):
        nodes_of(text, "nodes")
    assert NodeSizes(()).away([]) == []


RECORD = "NodeName={} CPUAlloc=0 CPUEfctv={} CPUTot=8\n   Gres=(null) State={}\n   Partitions={}\n"


def test_cores_that_are_kept_for_the_system_are_not_the_jobs() -> None:
    """Of the cores of a node with CoreSpecCount=2, Slurm gives jobs six."""
    text = RECORD.format("n1", 6, "IDLE", "cpu") + RECORD.format("n2", 8, "IDLE", "cpu")
    assert nodes_of(text, "n")["cpu"]["cores"] == 14
    node = {"name": "n1", "cpus": 8, "state": ["IDLE"], "partitions": ["cpu"]}
    for effective, cores in ((6, 6), (8, 8), (0, 8), (None, 8)):
        listed = json.dumps({"nodes": [{**node, "effective_cpus": effective}]})
        assert nodes_of(listed, "n")["cpu"]["cores"] == cores
    assert nodes_of(json.dumps({"nodes": [node]}), "n")["cpu"]["cores"] == 8


@pytest.mark.parametrize(
    "text",
    [
        RECORD.format("n1", 8, "IDLE", "cpu") + RECORD.format("n1", 8, "DOWN", "cpu"),
        RECORD.format("n[1-2]", 8, "IDLE", "cpu") + RECORD.format("n2", 8, "IDLE", "gpu,cpu"),
        "NODELIST|PARTITION|CPUS|GRES|STATE\nn[1-3]|cpu*|8|(null)|idle\nn3|cpu*|8|(null)|drain\n",
        json.dumps(
            {"nodes": [{"name": "n1", "cpus": 8, "state": ["IDLE"], "partitions": ["cpu"]}] * 2}
        ),
    ],
)
def test_nodes_that_are_listed_twice_are_refused(text: str) -> None:
    """Lists of two moments, or of two clusters, put together: each node counted twice."""
    with pytest.raises(InputError, match=r"n: node 'n[123]' is listed twice in partition 'cpu'"):
        nodes_of(text, "n")


def test_a_node_has_no_fewer_than_no_cores() -> None:
    node = {"name": "n1", "cpus": -8, "state": ["IDLE"], "partitions": ["cpu"]}
    with pytest.raises(InputError, match="node 'n1' has -8 cores; a number from 0 up"):
        nodes_of(json.dumps({"nodes": [node]}), "n")


@pytest.mark.parametrize(
    ("state", "asleep"),
    [("pow_dn", 8), ("powering_down", 8), ("pow_up", 8), ("alloc#", 0), ("mix!", 0), ("down~", 0)],
)
def test_nodes_that_are_switched_off_are_asleep_also_without_a_base_state(
    state: str, asleep: int
) -> None:
    found = nodes_of(f"NODELIST|PARTITION|CPUS|GRES|STATE\nn1|cpu|8|(null)|{state}\n", "n")
    assert found.asleep(["cpu"]) == asleep


def test_an_empty_state_is_none() -> None:
    node = {"name": "n1", "cpus": 8, "state": [], "partitions": ["cpu"]}
    (doubt,) = nodes_of(json.dumps({"nodes": [node]}), "n").unsure
    assert doubt == "nodes whose state is not told, counted as if Slurm used them"


FLOATING = """\
ReservationName=short StartTime=2026-06-21T01:00:00 EndTime=2026-06-21T02:00:00 Duration=01:00:00
   Nodes=n[1-2] NodeCnt=2 CoreCnt=16 PartitionName=(null) Flags=SPEC_NODES,TIME_FLOAT
   Users=root State=INACTIVE
"""
ACTIVE = FLOATING.replace("SPEC_NODES,TIME_FLOAT", "MAINT").replace("INACTIVE", "ACTIVE")
SHORT = "nodes of a reservation with TIME_FLOAT, counted: only short jobs get them"


@pytest.mark.parametrize("state", ["IDLE+RESERVED", "ALLOCATED+MAINTENANCE+RESERVED"])
def test_slurm_uses_nodes_of_a_floating_reservation(state: str) -> None:
    """Such nodes are RESERVED all the time, and take jobs that end before its start."""
    text = RECORD.format("n1", 8, state, "cpu") + RECORD.format("n3", 8, "IDLE+RESERVED", "cpu")
    found = nodes_of(text + FLOATING, "n")
    assert [each.node[0] for each in found.away(["cpu"])] == ["n3"]
    assert found.unsure == {SHORT: 1}
    for others in ("", ACTIVE, FLOATING + ACTIVE.replace("=short", "=maint")):
        found = nodes_of(text + others, "n")
        assert [each.node[0] for each in found.away(["cpu"])] == ["n1", "n3"]
        assert not found.unsure


def test_a_drained_node_of_a_floating_reservation_is_away() -> None:
    found = nodes_of(RECORD.format("n1", 8, "IDLE+DRAIN+RESERVED", "cpu") + FLOATING, "n")
    (away,) = found.away(["cpu"])
    assert (away.why, away.until) == (("DRAIN", "RESERVED"), None)
