"""Jobs that read from storage hosts, write to them, and copy between them."""

from __future__ import annotations

import pytest

from qops_batsim import Job
from qops_batsim.core import HostSet
from qops_batsim.engine import Simulation, format_schedule
from qops_batsim.errors import SimulationError
from qops_batsim.platform import Platform
from qops_batsim.protocol import Event, ExecuteJob, JobSubmitted, Message, Stamped
from qops_batsim.workload import Workload
from support.platform_text import parse_zone

PROFILES = {
    "read": {"type": "parallel_homogeneous_pfs", "bytes_to_read": 60},
    "read and write": {
        "type": "parallel_homogeneous_pfs",
        "bytes_to_read": 40,
        "bytes_to_write": 20,
        "storage": "scratch",
    },
    "nothing": {"type": "parallel_homogeneous_pfs", "bytes_to_write": 0, "host": "scratch"},
    "copy": {"type": "data_staging", "nb_bytes": 90, "from": "scratch", "to": "archive"},
    "both": {"type": "composed", "seq": ["read and write", "copy"]},
}


def platform(*disks: str) -> Platform:
    """Two hosts and some disks; each has a link of its own, a disk the wider one (bytes/s)."""
    names = ["h0", "h1", *disks]
    role = '<prop id="role" value="storage"/>'
    hosts = "".join(
        f'<host id="{name}" speed="1f">{role if name in disks else ""}</host>'
        f'<link id="of {name}" bandwidth="{15 if name in disks else 10}Bps"/>'
        for name in names
    )
    routes = "".join(
        f'<route src="{a}" dst="{b}"><link_ctn id="of {a}"/><link_ctn id="of {b}"/></route>'
        for index, a in enumerate(names)
        for b in names[index + 1 :]
    )
    return parse_zone(hosts + routes)


class Mapping:
    """Starts each job on both hosts, with this mapping of its storages."""

    def __init__(self, storages: dict[str, int] | None) -> None:
        self._storages = storages

    def exchange(self, message: Message[Event]) -> Message:
        started = [
            ExecuteJob(item.body.job_id, HostSet.parse("0-1"), None, self._storages)
            for item in message.events
            if isinstance(item.body, JobSubmitted)
        ]
        return Message(message.now, [Stamped(message.now, each) for each in started])


def simulated(machine: Platform, profile: str, storages: dict[str, int] | None) -> Simulation:
    jobs = [Job("1", 0.0, 2, profile)]
    simulation = Simulation(
        machine, [Workload(jobs=jobs, profiles=PROFILES, processors=2)], Mapping(storages)
    )
    simulation.run()
    return simulation


@pytest.mark.parametrize(
    ("profile", "seconds"),
    [
        # 2 × 60 bytes cross the disk's link, 60 that of each host.
        ("read", 8.0),
        ("read and write", 8.0),
        ("copy", 6.0),
        ("both", 14.0),
    ],
)
def test_the_slowest_link_rules(profile: str, seconds: float) -> None:
    machine = platform("disk1", "disk2")
    labels = {"pfs": 2, "scratch": 3, "archive": 2}
    (record,) = simulated(machine, profile, labels).ended
    assert record.finish == pytest.approx(seconds)
    assert str(record.hosts) == "0-1"


def test_nothing_to_send_takes_no_time() -> None:
    ended = simulated(platform("disk"), "nothing", None).ended_jobs
    assert (ended.finishes.tolist(), ended.table()["finish_time"].tolist()) == ([0.0], [1e-5])


def test_a_single_storage_host_needs_no_mapping() -> None:
    simulation = simulated(platform("disk"), "read", None)
    assert simulation.ended[0].finish == pytest.approx(8.0)
    names, row = (line.split(",") for line in format_schedule(simulation).splitlines())
    # Batsim counts it among the machines.
    assert dict(zip(names, row, strict=True))["nb_computing_machines"] == "3"


@pytest.mark.parametrize(
    ("disks", "profile", "storages", "said"),
    [
        ((), "read", None, "storage 'pfs' was mapped to no host; .* .the platform has 0."),
        (("a", "b"), "read", None, "storage 'pfs' was mapped to no host; .* .the platform has 2."),
        (("a",), "read", {"scratch": 2}, "storage 'pfs' was mapped to no host"),
        (("a",), "read", {"pfs": 1}, "storage 'pfs' was mapped to host 1, which is no storage"),
        (("a",), "read", {"pfs": 9}, "storage 'pfs' was mapped to host 9, which is no storage"),
    ],
)
def test_storages_that_are_not_there(disks, profile, storages, said) -> None:
    with pytest.raises(SimulationError, match=f"at 0.000000 s: job 'w0!1': {said}"):
        simulated(platform(*disks), profile, storages)
