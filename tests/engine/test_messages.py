"""Batsim's own messages on a platform with latencies, drawn by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import InputError, Job, read_platform
from qops_batsim.core import HostSet
from qops_batsim.engine import EngineOptions, ExternalEvent, Simulation, format_schedule
from qops_batsim.errors import SimulationError
from qops_batsim.platform import Platform, make_cluster, parse_platform
from qops_batsim.protocol import (
    CallMeLater,
    Decision,
    Event,
    ExecuteJob,
    JobCompleted,
    JobKilled,
    JobSubmitted,
    KillJob,
    Message,
    Notify,
    Stamped,
)
from qops_batsim.workload import Workload, delay_profile
from support.random_simulations import document

# Each message crosses two links of half a second: L is one second, and a microsecond for the byte.
NETWORK = make_cluster(2, bandwidth=1e9, latency=0.5)


class Scripted:
    """Answers each message by a function; remembers what was told, and when."""

    def __init__(self, answer) -> None:
        self.told: list[tuple[float, str]] = []
        self.sent: list[float] = []
        self._answer = answer

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        self.sent.append(round(message.now, 3))
        for item in message.events:
            name = item.body.type if isinstance(item.body, Notify) else item.body.TYPE
            self.told.append((round(item.timestamp, 3), name))
        decisions = self._answer(message)
        return Message(message.now, [Stamped(message.now, each) for each in decisions])


def jobs(*subtimes: float) -> Workload:
    name, profile = delay_profile(10.0)
    listed = [Job(str(index), date, 1, name) for index, date in enumerate(subtimes, start=1)]
    return Workload(jobs=listed, profiles={name: profile}, processors=2)


def start_each_on_its_host(message: Message[Event]) -> list[Decision]:
    submitted = [item.body for item in message.events if isinstance(item.body, JobSubmitted)]
    return [
        ExecuteJob(each.job_id, HostSet.parse(str(int(each.job_id[-1]) - 1))) for each in submitted
    ]


def simulated(
    peer: Scripted, workload: Workload, platform: Platform = NETWORK, **options
) -> Simulation:
    simulation = Simulation(platform, [workload], peer, EngineOptions(**options))
    simulation.run()
    return simulation


def spans(simulation: Simulation) -> list[tuple[float, float]]:
    return [(round(each.start, 3), round(each.finish, 3)) for each in simulation.ended]


def test_each_message_takes_the_route_and_the_server_takes_one_at_a_time() -> None:
    """Jobs of 10 s, submitted at 4 s and at 7 s, each started as soon as it is told.

    submitter   4 ─1─► 5      8 ─2─► 9 ─goodbye─► 10
    module             5 ─start─► 6 ─ready─► 7
    host 0                        6 ▓▓▓▓▓▓▓▓▓▓ 16 ─end─► 17
    module                           9   10 ─start─► 11 ─ready─► 12: only now the goodbye is told
    host 1                                          11 ▓▓▓▓▓▓▓▓▓▓ 21 ─end─► 22
    """
    peer = Scripted(start_each_on_its_host)
    simulation = simulated(peer, jobs(4.0, 7.0))
    assert peer.told == [
        (0.0, "SIMULATION_BEGINS"),
        (5.0, "JOB_SUBMITTED"),
        # Sent at 8 s: the sleep of 3 s began when job 1 had arrived, at 5 s.
        (9.0, "JOB_SUBMITTED"),
        (10.0, "no_more_static_job_to_submit"),
        (17.0, "JOB_COMPLETED"),
        (22.0, "JOB_COMPLETED"),
        (23.0, "SIMULATION_ENDS"),
    ]
    assert peer.sent == [0.0, 5.0, 9.0, 12.0, 17.0, 22.0, 23.0]
    assert spans(simulation) == [(6.0, 16.0), (11.0, 21.0)]


def test_where_places_give_latencies_a_byte_takes_no_more_time() -> None:
    """In a Vivaldi zone there is no link for the byte to cross: L is one second, to the end."""
    hosts = (f'<host id="{name}" coordinates="0 0 500" speed="1f"/>' for name in ("h0", "h1"))
    master = '<host id="master_host" coordinates="0 0 500" speed="1f"/>'
    platform = parse_platform(document([master, *hosts], "Vivaldi").encode(), source="p.xml")
    peer = Scripted(start_each_on_its_host)
    simulation = Simulation(platform, [jobs(4.0, 7.0)], peer, EngineOptions())
    simulation.run()
    assert peer.told[-1] == (23.0, "SIMULATION_ENDS")
    dates = [date for each in simulation.ended for date in (each.start, each.finish)]
    # At the rate that SimGrid allows with this latency, a byte would take half a microsecond.
    assert dates == pytest.approx([6.0, 16.0, 11.0, 21.0], abs=1e-9)


def test_without_latencies_a_message_takes_the_time_of_a_byte(tmp_path: Path) -> None:
    peers = [Scripted(start_each_on_its_host) for _ in range(2)]
    ends = [
        spans(simulated(peer, jobs(4.0, 7.0), platform))
        for peer, platform in zip(peers, (NETWORK, make_cluster(2, bandwidth=1.0)), strict=True)
    ]
    assert peers[0].told == peers[1].told
    assert ends[0] == ends[1]


def test_decisions_of_one_answer_take_effect_one_after_the_other() -> None:
    """Two jobs at 4 s; the goodbye was sent when they had arrived, before the answer.

    module    5: ─goodbye─► 6 ─start 1─► 7 ─start 2─► 8 ─ready─► 9
    host 0                               7 ▓▓▓▓▓▓▓▓▓▓ 17 ─end─► 18
    host 1                                            8 ▓▓▓▓▓▓▓▓▓▓ 18 ─end, queued─► 19
    """
    peer = Scripted(start_each_on_its_host)
    assert spans(simulated(peer, jobs(4.0, 4.0))) == [(7.0, 17.0), (8.0, 18.0)]
    assert peer.sent[2:] == [9.0, 18.0, 20.0, 21.0]
    assert peer.told[-3:-1] == [(18.0, "JOB_COMPLETED"), (19.0, "JOB_COMPLETED")]


def test_a_kill_that_comes_too_late_names_the_job_without_progress() -> None:
    """Job 1 runs from 7 s to 17 s; a kill decided at 16 s or later reaches it when it has ended."""
    killed: list[JobKilled] = []

    def answer(message: Message[Event]) -> list[Decision]:
        for item in message.events:
            if isinstance(item.body, JobKilled):
                killed.append(item.body)
            if isinstance(item.body, JobSubmitted):
                return [ExecuteJob("w0!1", HostSet.parse("0")), CallMeLater(15.5)]
        if round(message.now, 3) == 16.5:
            return [KillJob(["w0!1"])]
        return []

    peer = Scripted(answer)
    simulation = simulated(peer, jobs(4.0))
    assert simulation.ended[0].state == "COMPLETED_SUCCESSFULLY"
    assert [(each.job_ids, each.job_progress) for each in killed] == [(["w0!1"], {})]


def test_a_call_for_a_date_that_has_passed_when_it_is_asked_for_is_an_error() -> None:
    peer = Scripted(lambda message: [CallMeLater(5.5)] if round(message.now) == 5 else [])
    with pytest.raises(SimulationError, match="CALL_ME_LATER asks for 5.5"):
        simulated(peer, jobs(4.0))


def test_without_delays_events_are_told_when_they_happen() -> None:
    peer = Scripted(start_each_on_its_host)
    simulation = simulated(peer, jobs(4.0, 7.0), message_delays=False)
    assert not simulation.has_message_delays
    ends = [date for date, name in peer.told if name == JobCompleted.TYPE]
    assert ends == [14.0, 17.0]


def test_a_computation_that_reached_its_walltime_goes_on_until_the_news_has_arrived() -> None:
    """Two computations on one host of 100 Mflop/s; job 2 has a walltime of 5 s.

    job 1   7 ▓ 8 ▒▒▒▒▒▒▒▒▒▒▒▒ 14 ▓▓▓▓▓▓ 20     ▓ the whole host, ▒ half of it
    job 2       8 ▒▒▒▒▒▒▒▒▒▒ 13 ─end─► 14
    """
    profile = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}
    listed = [Job("1", 4.0, 1, "work"), Job("2", 4.0, 1, "work", walltime=5.0)]
    workload = Workload(jobs=listed, profiles={"work": profile}, processors=2)

    def answer(message: Message[Event]) -> list[Decision]:
        submitted = [item.body for item in message.events if isinstance(item.body, JobSubmitted)]
        return [ExecuteJob(each.job_id, HostSet.parse("0")) for each in submitted]

    simulation = simulated(Scripted(answer), workload, compute_sharing=True)
    assert spans(simulation) == [(8.0, 13.0), (7.0, 20.0)]


def test_a_platform_without_a_way_to_the_master_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_text(
        '<platform version="4.1"><zone id="z" routing="Floyd">'
        '<host id="master_host" speed="1Gf"/><host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>'
        '<link id="l" bandwidth="1GBps" latency="1ms"/>'
        '<route src="a" dst="b"><link_ctn id="l"/></route></zone></platform>'
    )
    platform = read_platform(path)
    with pytest.raises(InputError, match="no route from 'a' to 'master_host'.*--no-message-delays"):
        Simulation(platform, [jobs(4.0)], Scripted(start_each_on_its_host)).run()
    options = EngineOptions(message_delays=False)
    Simulation(platform, [jobs(4.0)], Scripted(start_each_on_its_host), options).run()
    path.write_text(path.read_text().replace("1ms", "0s"))
    Simulation(read_platform(path), [jobs(4.0)], Scripted(start_each_on_its_host)).run()
    path.write_text(path.read_text().replace("Floyd", "Full").replace("0s", "1ms"))
    passes = Simulation(read_platform(path), [jobs(4.0)], Scripted(start_each_on_its_host))
    passes.run()  # As in Batsim, at once.
    assert passes.ended[0].start == pytest.approx(4.0, abs=1e-9)


def test_a_host_is_away_from_when_the_server_has_heard_of_it() -> None:
    events = tuple(
        ExternalEvent(date, f"machine_{state}", HostSet.parse("1"), {"type": f"machine_{state}"})
        for date, state in ((0.0, "unavailable"), (20.0, "available"))
    )
    peer = Scripted(start_each_on_its_host)
    simulation = simulated(peer, jobs(4.0), external_events=events)
    heard = {name: date for date, name in peer.told}
    # Each waits for the messages before it: two greetings, and the sleep began after the first.
    assert (heard["event_machine_unavailable"], heard["event_machine_available"]) == (4.0, 23.0)
    names, row = (line.split(",") for line in format_schedule(simulation).splitlines())
    unavailable = float(dict(zip(names, row, strict=True))["time_unavailable"])
    assert unavailable == pytest.approx(19.0, abs=1e-4)
    assert [(each.since, each.until) for each in simulation.outages] == [(0.0, 20.0)]


def test_a_byte_that_crosses_a_link_twice_has_half_its_bandwidth() -> None:
    told = []
    for bandwidth, crossed in (("1Bps", 2), ("0.5Bps", 1)):
        links = '<link_ctn id="l"/>' * crossed
        ways = "".join(
            f'<route src="h{host}" dst="master_host">{links}</route>' for host in range(2)
        )
        hosts = "".join(f'<host id="h{host}" speed="1Gf"/>' for host in range(2))
        content = (
            '<platform version="4.1"><zone id="z" routing="Full">'
            f'<host id="master_host" speed="1Gf"/>{hosts}'
            f'<link id="l" bandwidth="{bandwidth}" latency="0s"/>{ways}</zone></platform>'
        )
        peer = Scripted(start_each_on_its_host)
        simulated(peer, jobs(4.0), parse_platform(content.encode(), source="p.xml"))
        told.append(peer.told)
    assert told[0] == told[1]
    # From 4 to 14 s it runs; its news takes 2 s.
    assert (16.0, JobCompleted.TYPE) in told[0]
