"""Starts on hosts that jobs share by amounts, whoever decides: what they take, which are refused.

Hosts: n0 with 4 cores, n1 with 4 cores and 2 GPUs, n2 with 8 cores, 32 GB and the label "big".
"""

from __future__ import annotations

from typing import Any

import pytest

from qops_batsim import InputError, Job
from qops_batsim.core import HostSet
from qops_batsim.engine import EngineOptions, Simulation
from qops_batsim.errors import SimulationError
from qops_batsim.platform import Platform, make_cluster
from qops_batsim.protocol import ExecuteJob, KillJob, Message, RegisterJob, Stamped
from qops_batsim.protocol.events import JobCompleted, JobSubmitted, SimulationBegins
from qops_batsim.workload import Workload, delay_profile
from support.platform_text import HEADER, parse_platform

HOSTS = (
    {"cores": "4", "licence:matlab": "3"},
    {"cores": "4", "gpus": "2"},
    {"cores": "8", "memory": "32GB", "labels": "big"},
)
Starts = dict[str, "str | tuple[str, list[int]]"]
"""The hosts of each job, in the order of starts; with places of its executors if there is a
mapping.
"""


def platform(hosts: tuple[dict[str, str], ...] = HOSTS) -> Platform:
    lines = [
        f'<host id="n{number}" speed="1Gf">'
        + "".join(f'<prop id="{name}" value="{text}"/>' for name, text in each.items())
        + "</host>"
        for number, each in enumerate(hosts)
    ]
    zone = f'<zone id="a" routing="None">{"".join(lines)}</zone>'
    text = f'{HEADER}<platform version="4.1">{zone}</platform>'
    return parse_platform(text.encode(), source="p.xml")


class Scripted:
    """Starts the jobs that are submitted at one date in an order of its own, on given hosts."""

    def __init__(self, starts: Starts) -> None:
        self.starts = starts
        self.waiting: set[str] = set()
        self.told: list[Any] = []

    def exchange(self, message: Message[Any]) -> Message[Any]:
        bodies = [item.body for item in message.events]
        self.told += bodies
        self.waiting |= {body.job_id for body in bodies if isinstance(body, JobSubmitted)}
        decided = []
        for name, hosts in self.starts.items():
            if f"w0!{name}" in self.waiting:
                self.waiting.remove(f"w0!{name}")
                alloc, places = (hosts, None) if isinstance(hosts, str) else hosts
                mapping = places and {str(e): str(place) for e, place in enumerate(places)}
                decided.append(ExecuteJob(f"w0!{name}", HostSet.parse(alloc), mapping))
        return Message(message.now, [Stamped(message.now, each) for each in decided])


def simulated(
    jobs: dict[str, dict[str, Any]], starts: Starts, **options: Any
) -> tuple[Simulation, Scripted]:
    """Simulate jobs, which sleep 10 s unless they say ``sleeps``, with these starts."""
    rows, profiles = [], {}
    for name, asked in jobs.items():
        profile, content = delay_profile(asked.pop("sleeps", 10))
        profiles[profile] = content
        fields = {"id": name, "subtime": 0, "res": 1, "profile": profile, **asked}
        rows.append(Job.from_fields(fields, where="job"))
    workload = Workload(jobs=rows, profiles=profiles, processors=3, source="w.json")
    side = Scripted(starts)
    simulation = Simulation(platform(), [workload], side, EngineOptions(**options))
    simulation.run()
    return simulation, side


def refused(jobs: dict[str, dict[str, Any]], starts: Starts) -> str:
    with pytest.raises(SimulationError) as caught:
        simulated(jobs, starts)
    return str(caught.value)


def cores(number: int, **more: Any) -> dict[str, Any]:
    return {"per_host": {"cores": number}, **more}


def test_jobs_share_hosts_up_to_their_amounts() -> None:
    #         n0: 4 cores   n1: 4 cores   n2: 8 cores, big
    #  t=0    a a a b       . . . .       c c c c c c d d
    #  t=5    e e e b       . . . .       c c c c c c d d    a has ended
    done, side = simulated(
        {
            "a": cores(3, sleeps=5),
            "b": cores(1),
            "c": cores(6, hosts_with=["big"]),
            "d": cores(2),
            "e": cores(3, subtime=5),
        },
        {"a": "0", "b": "0", "c": "2", "d": "2", "e": "0"},
    )
    assert isinstance(side.told[0], SimulationBegins)
    assert side.told[0].allow_compute_sharing
    assert done.options.compute_sharing
    assert {each.local_id: each.start for each in done.ended}["e"] == 5
    changes = [(date, busy) for date, busy, _ in done.computing_changes]
    # A host computes while it has a job.
    assert changes == [
        *[(0, 1), (0, 1), (0, 2), (0, 2), (5, 2), (5, 2)],
        *[(10, 2), (10, 2), (10, 1), (15, 0)],
    ]


@pytest.mark.parametrize(
    ("second", "starts", "text"),
    [
        (
            cores(2),
            "0",
            "job 'w0!b' cannot start on host 0: it asks for 2 cores there, 1 cores are free beside "
            "w0!a (n0)",
        ),
        (
            {"per_host": {"cores": 1, "gpus": 3}},
            "1",
            "job 'w0!b' cannot start on host 1: it asks for 3 gpus there, 2 gpus are free (n1)",
        ),
        (
            {"per_host": {"memory": 16e9}},
            "1",
            "job 'w0!b' cannot start on host 1: it asks for 16 GB of memory there, 0 B of memory "
            "are free (n1)",
        ),
        ({}, "0", "host 0: it takes whole hosts, and this one has w0!a (n0)"),
        (cores(1, exclusive=True), "0", "host 0: it takes whole hosts, and this one has w0!a"),
        (
            cores(1, hosts_with=["big"]),
            "1",
            "host 1: it asks for hosts with big, which is no label of this one (n1)",
        ),
        (cores(1), "1-2", "job 'w0!b' cannot start: it asks for 1 hosts and was given 2 (1-2)"),
        (cores(1, res=2), "1", "cannot start: it asks for 2 hosts and was given 1 (1)"),
        ({"res": 2}, ("1", [0, 0]), "cannot start: it asks for 2 hosts and was given 1 (1)"),
        (
            cores(1, res=2),
            ("1-2", [1, 1]),
            "cannot start: it asks for 2 hosts, and its mapping puts two executors on one",
        ),
        (
            cores(1, licences={"matlab": 2}),
            "1",
            "cannot start: it asks for 2 licences of matlab, 1 are free",
        ),
        (cores(1), "3", "host 3: it does not exist (hosts are 0 to 2)"),
    ],
)
def test_a_start_that_overbooks_is_refused(second: dict[str, Any], starts: Any, text: str) -> None:
    #  n0: a a a .  and two of three licences
    first = cores(3, licences={"matlab": 2})
    assert text in refused({"a": first, "b": second}, {"a": "0", "b": starts})


def test_a_whole_host_is_all_of_it() -> None:
    #  n1: all of it  |  b asks for a core of it
    told = refused({"a": {}, "b": cores(1)}, {"a": "1", "b": "1"})
    assert "host 1: it asks for 1 cores there, 0 cores are free beside w0!a (n1)" in told
    # A host without a name of a kind has none of it, and can be taken whole.
    simulated({"a": {"res": 3}}, {"a": "0-2"})


def test_tasks_are_where_the_mapping_says() -> None:
    tasks = {"res": 4, "tasks": 4, "per_task": {"cores": 2}}
    #  n0: a a . .   n2: a a a a a a . .    three of four tasks are on n2
    jobs = {"a": tasks, "b": cores(2), "c": cores(2)}
    simulated(jobs, {"a": ("0 2", [0, 1, 1, 1]), "b": "0", "c": "2"})
    jobs = {"a": tasks, "b": cores(2), "c": cores(3)}
    told = refused(jobs, {"a": ("0 2", [0, 1, 1, 1]), "b": "0", "c": "2"})
    assert "host 2: it asks for 3 cores there, 2 cores are free beside w0!a" in told
    told = refused({"a": tasks}, {"a": ("0 2", [0, 0, 0, 1])})
    assert "host 0: it asks for 6 cores there, 4 cores are free (n0)" in told


def test_more_tasks_than_executors_are_where_they_have_room() -> None:
    #  Six tasks of a core on n0 and n1 by three executors: at least two on each, and no more than
    #  four; a job with two cores may be beside them, one with three may not.
    tasks = {"res": 3, "tasks": 6, "per_task": {"cores": 1}}
    by = ("0-1", [0, 1, 1])
    simulated({"a": tasks, "b": cores(2)}, {"a": by, "b": "0"})
    told = refused({"a": tasks, "b": cores(3)}, {"a": by, "b": "0"})
    assert "host 0: it asks for 3 cores there, 2 cores are free beside w0!a (n0)" in told
    told = refused({"a": tasks, "b": cores(3)}, {"b": "0", "a": by})
    assert "host 0: it asks for 2 cores there, 1 cores are free beside w0!b (n0)" in told
    told = refused({"a": tasks}, {"a": ("0", [0, 0, 0])})
    assert "host 0: it asks for 6 cores there, 4 cores are free (n0)" in told


def test_the_executors_of_parts_stand_in_their_order() -> None:
    parts = [{"res": 1, "per_host": {"cores": 6}}, {"res": 1, "per_host": {"gpus": 1}}]
    jobs = {"a": {"res": 2, "parts": parts}}
    # The first executor is that of the first part: n2 is the second of the hosts.
    simulated(jobs, {"a": ("1-2", [1, 0])})
    told = refused({"a": {"res": 2, "parts": parts}}, {"a": "1-2"})
    assert "host 1: it asks for 6 cores there, 4 cores are free (n1)" in told


def test_a_killed_job_frees_its_amounts_at_once() -> None:
    #  n0: a a a .  |  at 3 a is killed, and b starts in the same message
    class Killer(Scripted):
        def exchange(self, message: Message[Any]) -> Message[Any]:
            reply = super().exchange(message)
            if message.now == 3 and isinstance(message.events[0].body, JobSubmitted):
                reply.events.insert(0, Stamped(3.0, KillJob(["w0!a"])))
            return reply

    jobs = {"a": cores(3), "b": cores(4, subtime=3)}
    rows = []
    for name, asked in jobs.items():
        fields = {"id": name, "subtime": 0, "res": 1, "profile": "p", **asked}
        rows.append(Job.from_fields(fields, where="job"))
    profiles = {"p": {"type": "delay", "delay": 10}}
    workload = Workload(jobs=rows, profiles=profiles, processors=3)
    side = Killer({"a": "0", "b": "0"})
    Simulation(platform(), [workload], side).run()
    ends = [(each.job_id, each.job_state) for each in side.told if isinstance(each, JobCompleted)]
    assert ends == [("w0!a", "COMPLETED_KILLED"), ("w0!b", "COMPLETED_SUCCESSFULLY")]


def test_hosts_in_use_make_the_machine() -> None:
    # The first host alone has no labels, and only cores and licences.
    with pytest.raises(SimulationError, match="host 2: it does not exist"):
        simulated({"a": cores(1)}, {"a": "2"}, hosts=1)
    plain = platform(({"memory": "4GB"}, {"cores": "4"}))
    workload = Workload(
        jobs=[Job.from_fields({"id": "a", "subtime": 0, "res": 1, "profile": "p"}, where="")],
        profiles={"p": {"type": "delay", "delay": 10}},
        processors=1,
    )
    side = Scripted({"a": "0"})
    Simulation(plain, [workload], side, EngineOptions(hosts=1)).run()
    assert not side.told[0].allow_compute_sharing


def test_amounts_on_whole_hosts_are_an_error_that_names_all() -> None:
    fields = {"id": "a", "subtime": 0, "res": 1, "profile": "p", **cores(1)}
    job = Job.from_fields(fields, where="")
    profiles = {"p": {"type": "delay", "delay": 10}}
    workload = Workload(jobs=[job], profiles=profiles, processors=1, source="w.json")
    with pytest.raises(InputError) as caught:
        Simulation(make_cluster(2), [workload], Scripted({}))
    assert str(caught.value) == (
        "w.json: job 'a' asks for per_host, but no host of a cluster of 2 hosts tells what it has; "
        "a platform whose hosts have amounts, such as cores, is expected"
    )

    class Registers(Scripted):
        def exchange(self, message: Message[Any]) -> Message[Any]:
            registered = RegisterJob("w0!b", job.renamed("w0!b"))
            return Message(message.now, [Stamped(message.now, registered)])

    plain = Workload(jobs=[], profiles=profiles, processors=1)
    options = EngineOptions(dynamic_jobs=True)
    with pytest.raises(SimulationError, match="job 'w0!b' asks for per_host, but no host of the"):
        Simulation(make_cluster(2), [plain], Registers({}), options).run()
