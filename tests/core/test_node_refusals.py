"""Requests that fit at no date: the first obstacle, and its sentence."""

from __future__ import annotations

import pytest

from qops_batsim.core.host_properties import machine_of
from qops_batsim.core.machine import Machine
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.core.refusal import Refusal, RefusalKind, sentence
from qops_batsim.job_fields import AskedPart, HostsAsked

K = RefusalKind
GB = 10**9

#   host       0     1     2     3
#   cores     32    32    16    16
#   memory   64G   64G  256G  256G
#   gpus       4     -     2     -
#   labels     a     a    a,b    -
HOSTS = [
    {"cores": "32", "memory": "64GB", "gpus": "4", "labels": "a", "licence:ansys": "2"},
    {"cores": "32", "memory": "64GB", "labels": "a"},
    {"cores": "16", "memory": "256GB", "gpus": "2", "labels": "a,b", "licence:ansys": "1"},
    {"cores": "16", "memory": "256GB"},
]


@pytest.fixture
def machine() -> Machine:
    found = machine_of(HOSTS, ["h0", "h1", "h2", "h3"])
    assert found is not None
    return found


def why_never(asked: HostsAsked, machine: Machine) -> Refusal | None:
    return NodeLayout(machine).request(asked, sum(each.hosts for each in asked.parts)).refusal


def part(hosts: int, tasks: int = 0, labels: tuple[str, ...] = (), **amounts: int) -> AskedPart:
    return AskedPart(
        hosts=hosts, tasks=tasks, labels=labels, amounts=amounts, exclusive=not amounts
    )


@pytest.mark.parametrize(
    ("asked", "kind", "text"),
    [
        (part(1, fpgas=1), K.NO_SUCH_KIND, "asks for 1 fpgas, which no host has"),
        (
            part(2, labels=("a", "b")),
            K.NO_LABELS,
            "asks for 2 hosts labelled a, b, 1 has all of these labels",
        ),
        (
            part(1, labels=("c",), cores=1),
            K.NO_LABELS,
            "asks for 1 host labelled c, no host has all of these labels",
        ),
        (
            part(1, memory=257 * GB),
            K.HOSTS_TOO_SMALL,
            "asks for 1 host with 257 GB of memory, the largest has 256 GB of memory",
        ),
        (
            part(2, gpus=3),
            K.HOSTS_TOO_SMALL,
            "asks for 2 hosts with 3 gpus each; 1 has that, 2 have 2 gpus each",
        ),
        (
            part(2, labels=("a",), memory=65 * GB),
            K.HOSTS_TOO_SMALL,
            "asks for 2 hosts labelled a with 65 GB of memory each; 1 has that, 2 have "
            "64 GB of memory each",
        ),
        (
            part(1, cores=32, memory=65 * GB),
            K.AMOUNTS_APART,
            "asks for 1 host with cores, memory at once, no host has it",
        ),
        (
            part(2, tasks=9, cores=8),
            K.AMOUNTS_APART,
            "asks for 9 tasks on at most 2 hosts, these hold 8 at most",
        ),
        (
            part(2, tasks=2, cores=33),
            K.HOSTS_TOO_SMALL,
            "asks for 1 host with 33 cores, the largest has 32 cores",
        ),
    ],
)
def test_the_first_obstacle_is_told(
    asked: AskedPart, kind: RefusalKind, text: str, machine: Machine
) -> None:
    found = why_never(HostsAsked(parts=(part(1, cores=1), asked)), machine)
    assert found is not None
    assert (found.kind, sentence(found)) == (kind, text)


def test_licences_of_all_hosts_count_together(machine: Machine) -> None:
    one = (part(1),)
    assert why_never(HostsAsked(parts=one, licences={"ansys": 3}), machine) is None
    found = why_never(HostsAsked(parts=one, licences={"ansys": 4}), machine)
    assert found is not None
    assert sentence(found) == "asks for 4 licences of ansys, the machine has 3"
    assert why_never(HostsAsked(parts=one, licences={"other": 1}), machine) is not None


@pytest.mark.parametrize(
    "asked",
    [
        part(4),
        part(4, cores=16, memory=64 * GB),
        part(2, gpus=2),
        part(2, tasks=8, cores=8),
        part(2, tasks=2, cores=32),  # Both on one host, or one on each.
        part(4, tasks=4, gpus=1),  # More hosts than have a GPU, but no more are needed.
        part(1, labels=("b",), memory=256 * GB),
    ],
)
def test_what_fits_has_no_reason(asked: AskedPart, machine: Machine) -> None:
    assert why_never(HostsAsked(parts=(asked,)), machine) is None
