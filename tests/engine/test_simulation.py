"""The engine driven by hand: the order of events, kills, calls, dynamic jobs, and every refusal."""

from __future__ import annotations

import gc
import io
import math
import weakref
from collections.abc import Callable, Iterable

import pandas as pd
import pytest

import qops_batsim
from qops_batsim import InputError, Job
from qops_batsim.core import HostSet
from qops_batsim.engine import (
    EngineOptions,
    ExternalEvent,
    Simulation,
    format_jobs,
    format_schedule,
)
from qops_batsim.errors import SimulationError
from qops_batsim.platform import Host, Platform, make_cluster
from qops_batsim.protocol import (
    Answer,
    CallMeLater,
    Decision,
    Event,
    ExecuteJob,
    JobCompleted,
    JobKilled,
    JobSubmitted,
    KillJob,
    Message,
    ModuleDriver,
    Notify,
    RegisterJob,
    RejectJob,
    Stamped,
    make_scheduler,
)
from qops_batsim.protocol.decisions import (
    ChangeJobState,
    Query,
    RegisterProfile,
    SetJobMetadata,
    SetResourceState,
)
from qops_batsim.workload import Workload

Reply = Callable[[float, list[Event]], Iterable[Decision]]


class Scripted:
    """Answers with a function of date and events, and writes the conversation down."""

    def __init__(self, answer: Reply) -> None:
        self._answer = answer
        self.told: list[tuple[float, list[str]]] = []

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        bodies = [item.body for item in message.events]
        self.told.append((message.now, [brief(body) for body in bodies]))
        decisions = self._answer(message.now, bodies)
        return Message(message.now, [Stamped(message.now, decision) for decision in decisions])


def brief(event: Event) -> str:
    if isinstance(event, JobSubmitted):
        return f"+{event.job_id}"
    if isinstance(event, JobCompleted):
        return f"-{event.job_id}"
    if isinstance(event, Notify):
        return "no more" if event.type == "no_more_static_job_to_submit" else event.type
    return event.TYPE.lower()


Row = tuple[str, float, int, float, float | None]


def workload(*rows: Row) -> Workload:
    """Make a workload from (id, submission, processors, run time, walltime)."""
    jobs = [Job(name, date, needed, f"d{run:g}", wall) for name, date, needed, run, wall in rows]
    profiles = {f"d{run:g}": {"type": "delay", "delay": run} for _, _, _, run, _ in rows}
    return Workload(jobs=jobs, profiles=profiles, processors=4, source="test.json")


def simulate(answer: Reply, jobs: Workload, **options: object) -> tuple[Simulation, Scripted]:
    peer = Scripted(answer)
    simulation = Simulation(
        make_cluster(4),
        [jobs],
        peer,
        EngineOptions(**options),  # type: ignore[arg-type]
    )
    simulation.run()
    return simulation, peer


def execute_all(allocations: dict[str, str]) -> Reply:
    """Start every job as soon as it is submitted, on its given hosts."""

    def answer(_: float, events: list[Event]) -> Iterable[Decision]:
        for event in events:
            if isinstance(event, JobSubmitted):
                hosts = HostSet.parse(allocations[event.job_id.partition("!")[2]])
                yield ExecuteJob(event.job_id, hosts)

    return answer


def at_begin(*decisions: Decision) -> Reply:
    """Say these things in answer to the first job, and nothing else."""

    def answer(_: float, events: list[Event]) -> Iterable[Decision]:
        return decisions if any(isinstance(event, JobSubmitted) for event in events) else ()

    return answer


ONE: Row = ("1", 0.0, 2, 10.0, 100.0)


def test_waits_end_in_the_order_in_which_they_began() -> None:
    # At 10: job a began at 0, the submitter slept from 0 on (after a's submission but before
    # a started), job b is submitted by it, and at 20 b's end comes before c's submission.
    rows: list[Row] = [("a", 0, 1, 10, None), ("b", 10, 1, 10, None), ("c", 20, 1, 5, None)]
    _, peer = simulate(execute_all({"a": "0", "b": "1", "c": "2"}), workload(*rows))
    assert peer.told == [
        (0, ["simulation_begins"]),
        (0, ["+w0!a"]),
        (10, ["+w0!b", "-w0!a"]),
        (20, ["+w0!c", "-w0!b", "no more"]),
        (25, ["-w0!c"]),
        (25, ["simulation_ends"]),
    ]


def test_same_submission_dates_share_a_message_in_the_order_of_the_texts() -> None:
    rows: list[Row] = [("2", 0, 1, 5, None), ("10", 0, 1, 5, None), ("b", -3, 1, 5, None)]
    _, peer = simulate(execute_all({"2": "0", "10": "1", "b": "2"}), workload(*rows))
    assert peer.told[1] == (0, ["+w0!b", "+w0!10", "+w0!2"])
    assert peer.told[2] == (0, ["no more"])


def test_an_empty_workload_begins_and_ends() -> None:
    simulation, peer = simulate(lambda *_: (), workload())
    assert [told for _, told in peer.told] == [
        ["simulation_begins"],
        ["no more"],
        ["simulation_ends"],
    ]
    assert ",-nan,-nan,-nan,4,0,0,0,0,0,0,0," in format_schedule(simulation)


def test_a_job_ends_at_its_walltime() -> None:
    rows: list[Row] = [("a", 0, 1, 10, 10), ("b", 0, 1, 10, 10.5), ("c", 0, 1, 50, 7)]
    simulation, _ = simulate(execute_all({"a": "0", "b": "1", "c": "2"}), workload(*rows))
    assert [(r.local_id, r.state, r.finish) for r in simulation.ended] == [
        ("c", "COMPLETED_WALLTIME_REACHED", 7),
        ("a", "COMPLETED_WALLTIME_REACHED", 10),
        ("b", "COMPLETED_SUCCESSFULLY", 10),
    ]


def test_a_kill_ends_the_job_now_and_its_planned_end_moves_nothing() -> None:
    def answer(now: float, events: list[Event]) -> Iterable[Decision]:
        if now == 0 and any(isinstance(event, JobSubmitted) for event in events):
            return [ExecuteJob("w0!1", HostSet.parse("0-1")), CallMeLater(4.0)]
        if now == 4 and events[0].TYPE == "REQUESTED_CALL":
            return [KillJob(["w0!1", "w0!1"])]
        for event in events:
            if isinstance(event, JobKilled):
                assert event.job_ids == ["w0!1"]
                assert event.job_progress == {"w0!1": {"profile_name": "d10", "progress": 0.4}}
        return []

    simulation, peer = simulate(answer, workload(ONE))
    assert peer.told[-2:] == [(4, ["-w0!1", "job_killed"]), (4, ["simulation_ends"])]
    assert simulation.now == 4
    assert "1,w0,d10,0.000000,2,100.000000,0,COMPLETED_KILLED,0.000000,4.000000" in format_jobs(
        simulation.ended_jobs
    )


def test_a_job_killed_as_it_starts_is_written_with_batsims_shortest_run_time() -> None:
    answer = at_begin(ExecuteJob("w0!1", HostSet.parse("0-1")), KillJob(["w0!1"]))
    simulation, _ = simulate(answer, workload(ONE))
    expected = ",0.000000,0.000010,0.000010,0.000000,0.000010,1.000000,0-1,"
    assert expected in format_jobs(simulation.ended_jobs)
    assert simulation.now == 0


def test_metadata_is_quoted_for_csv() -> None:
    answer = at_begin(
        ExecuteJob("w0!1", HostSet.parse("0-1")), SetJobMetadata("w0!1", 'said "no", twice')
    )
    simulation, _ = simulate(answer, workload(ONE))
    assert format_jobs(simulation.ended_jobs).endswith(',"said ""no"", twice"\n')


def test_a_second_kill_is_ignored_also_of_a_job_that_has_ended_by_itself() -> None:
    """All is decided at 0, for 0, 20 and 30 s, and the end at 10 s is told at 40 s."""

    class Foreseeing(Scripted):
        def exchange(self, message: Message[Event]) -> Message[Decision]:
            reply = super().exchange(message)
            if "+w0!1" not in self.told[-1][1]:
                return reply
            start = Stamped(0.0, ExecuteJob("w0!1", HostSet.parse("0-1")))
            kills = [Stamped(date, KillJob(["w0!1"])) for date in (20.0, 30.0)]
            return Message(40.0, [start, *kills])

    peer = Foreseeing(lambda *_: ())
    simulation = Simulation(make_cluster(4), [workload(ONE)], peer)
    simulation.run()
    assert peer.told[-2:] == [
        (40.0, ["no more", "-w0!1", "job_killed"]),
        (40.0, ["simulation_ends"]),
    ]
    assert simulation.ended[0].state == "COMPLETED_SUCCESSFULLY"


def test_a_failing_profile_ends_as_failed() -> None:
    jobs = workload(ONE)
    jobs.profiles["d10"]["ret"] = 3
    simulation, _ = simulate(execute_all({"1": "0-1"}), jobs)
    assert simulation.ended[0].state == "COMPLETED_FAILED"


REGISTER = (
    RegisterProfile("dyn", "p", {"type": "delay", "delay": 3}),
    RegisterJob("dyn!1", Job("1", 0.0, 1, "p")),
)


def test_registered_jobs_are_announced_and_delay_the_end() -> None:
    def answer(_: float, events: list[Event]) -> Iterable[Decision]:
        for event in events:
            if isinstance(event, JobSubmitted) and event.job_id == "w0!1":
                yield ExecuteJob("w0!1", HostSet.parse("0-1"))
            elif isinstance(event, JobSubmitted):
                yield ExecuteJob(event.job_id, HostSet.parse("3"))
                yield Notify.of("registration_finished")
            elif isinstance(event, JobCompleted) and event.job_id == "w0!1":
                yield from REGISTER

    jobs = workload(ONE)
    simulation, peer = simulate(answer, jobs, dynamic_jobs=True)
    assert peer.told[-3:] == [
        (10, ["+dyn!1"]),
        (13, ["-dyn!1"]),
        (13, ["simulation_ends"]),
    ]
    assert [record.job.id for record in simulation.ended] == ["w0!1", "dyn!1"]
    assert "p" not in jobs.profiles, "a registered profile must not change the caller's workload"


def test_profiles_are_forwarded_when_asked_for() -> None:
    seen: list[object] = []

    def answer(_: float, events: list[Event]) -> Iterable[Decision]:
        for event in events:
            if isinstance(event, JobSubmitted):
                seen.append(event.profile)
                yield RejectJob(event.job_id)

    simulate(answer, workload(ONE), forward_profiles=True)
    assert seen == [{"type": "delay", "delay": 10.0}]


def test_with_sharing_several_jobs_use_one_host() -> None:
    rows: list[Row] = [("a", 0, 1, 10, None), ("b", 5, 2, 10, None)]
    allocations = {"a": "1", "b": "1-2"}
    simulation, _ = simulate(execute_all(allocations), workload(*rows), compute_sharing=True)
    assert simulation.computing_changes == [(0, 1, 3), (5, 2, 2), (10, 2, 2), (15, 0, 4)]
    # Host 1 computes from 0 to 15, host 2 idles until 5 and computes until 15.
    assert ",25.000000,5.000000,0.000000," in format_schedule(simulation)


HOSTS = HostSet.parse("0-1")
EXECUTE = ExecuteJob("w0!1", HOSTS)


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        (
            [ExecuteJob("w0!9", HOSTS)],
            "at 0.000000 s: EXECUTE_JOB names job 'w0!9', which does not",
        ),
        ([ExecuteJob("w0!1", HostSet.parse("0"))], "asks for 2 hosts and was given 1 \\(0\\)"),
        ([ExecuteJob("w0!1", HostSet())], "asks for 2 hosts and was given 0 \\(none\\)"),
        ([ExecuteJob("w0!1", HostSet.parse("3-4"))], "on host 4: it does not exist"),
        ([EXECUTE, EXECUTE], "job 'w0!1' cannot be started: it is RUNNING"),
        (
            [EXECUTE, ExecuteJob("w0!2", HostSet.parse("1"))],
            "job 'w0!2' cannot start on host 1: it is computing w0!1 \\(host1\\)",
        ),
        ([ExecuteJob("w0!3", HOSTS)], "job 'w0!3' cannot be started: it is NOT_SUBMITTED"),
        ([ExecuteJob("w0!1", HostSet.parse("0"), {"0": "0"})], "name the executors 0 to 1"),
        ([ExecuteJob("w0!1", HostSet.parse("0"), {"0": "0", "1": "1"})], "mapped to '1'"),
        ([EXECUTE, RejectJob("w0!1")], "job 'w0!1' cannot be rejected: it is RUNNING"),
        ([RejectJob("w0!7")], "REJECT_JOB names job 'w0!7'"),
        ([KillJob(["w0!1"])], "job 'w0!1' cannot be killed: it is SUBMITTED"),
        ([KillJob(["w0!8"])], "KILL_JOB names job 'w0!8'"),
        (
            [ExecuteJob("w0!1", HostSet.parse("0-1"), additional_io_job={"alloc": "0"})],
            "job 'w0!1' is started with an additional_io_job, which is not supported",
        ),
        ([KillJob([])], "KILL_JOB names no job; at least one is expected"),
        ([CallMeLater(0.0)], "CALL_ME_LATER asks for 0.000000 s; a finite date later than now"),
        ([CallMeLater(float("inf"))], "CALL_ME_LATER asks for inf s"),
        ([CallMeLater(float("nan"))], "CALL_ME_LATER asks for nan s"),
        ([SetJobMetadata("w0!8", "x")], "SET_JOB_METADATA names job 'w0!8'"),
        (REGISTER, "REGISTER_PROFILE was received but dynamic jobs are not enabled"),
        ([Notify.of("registration_finished")], "but dynamic jobs are not enabled"),
        ([Notify.of("hello")], "NOTIFY 'hello' is not supported"),
        ([ChangeJobState("w0!1", "RUNNING")], "CHANGE_JOB_STATE is not supported by the embedded"),
        ([SetResourceState(HOSTS, "1")], "SET_RESOURCE_STATE was received but energy is not"),
        (
            [Query({"requests": {"consumed_energy": {}}})],
            "QUERY consumed_energy was received but energy is not",
        ),
        ([Query({"requests": {"weather": {}}})], "QUERY {'weather': {}} is not supported by the"),
        ([], "at 5.000000 s: deadlock: 3 jobs were submitted and neither started nor rejected"),
    ],
)
def test_violations_name_job_host_and_time(decisions: list[Decision], message: str) -> None:
    rows: list[Row] = [ONE, ("2", 0, 1, 10, None), ("3", 5, 2, 10, None)]
    with pytest.raises(SimulationError, match=message):
        simulate(at_begin(*decisions), workload(*rows))


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ([REGISTER[1]], "names profile 'p', which workload 'dyn' does not have"),
        ([REGISTER[0], REGISTER[0]], "profile dyn!p already exists"),
        ([*REGISTER, REGISTER[1]], "job 'dyn!1' already exists"),
        (
            [REGISTER[0], RegisterJob("dyn!1,2", REGISTER[1].job)],
            "'dyn!1,2' contains a comma, a quotation mark or a control character",
        ),
        ([RegisterProfile("d\x1b", "p", {"type": "delay", "delay": 1})], r"d\\x1b' contains"),
        ([RegisterProfile("dyn", "p\n", {"type": "delay", "delay": 1})], r"p\\n' contains"),
        ([REGISTER[0], RegisterJob("1", REGISTER[1].job)], "job id '1'; WORKLOAD!NAME is expected"),
        (
            [REGISTER[0], Notify.of("registration_finished"), REGISTER[1]],
            "came after the registration was finished",
        ),
        (
            [RegisterProfile("dyn", "p", {"type": "smpi", "trace": "t"})],
            "cannot run profiles of type 'smpi'",
        ),
        ([RejectJob("w0!1")], "never sent NOTIFY registration_finished"),
    ],
)
def test_violations_with_dynamic_jobs(decisions: list[Decision], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        simulate(at_begin(*decisions), workload(ONE), dynamic_jobs=True)


def test_a_decision_dated_after_its_message_is_refused() -> None:
    class FromTheFuture:
        def exchange(self, message: Message[Event]) -> Message[Decision]:
            return Message(message.now, [Stamped(message.now + 5, RejectJob("w0!1"))])

    with pytest.raises(SimulationError, match="REJECT_JOB is dated 5.000000 s, later than its"):
        Simulation(make_cluster(4), [workload(ONE)], FromTheFuture()).run()


def test_profiles_that_the_engine_cannot_run_are_refused_at_load() -> None:
    jobs = workload(ONE)
    jobs.profiles["d10"] = {"type": "smpi", "trace": "x"}
    with pytest.raises(InputError, match="test.json: profile 'd10': .* type 'smpi'; it runs"):
        Simulation(make_cluster(4), [jobs], Scripted(lambda *_: ()))


def test_a_wrong_number_of_hosts_is_refused() -> None:
    with pytest.raises(InputError, match="5 hosts were asked for; from 1 to 4 are accepted"):
        Simulation(make_cluster(4), [], Scripted(lambda *_: ()), EngineOptions(hosts=5))


def test_a_query_is_answered_with_the_joules_so_far() -> None:
    heard: list[object] = []

    def answer(now: float, events: list[Event]) -> Iterable[Decision]:
        for event in events:
            if isinstance(event, JobSubmitted):
                yield ExecuteJob(event.job_id, HOSTS)
            elif isinstance(event, JobCompleted):
                yield Query({"requests": {"consumed_energy": {}}})
            elif isinstance(event, Answer):
                heard.append(event.fields)

    hosts = tuple(
        Host(name=f"h{index}", speeds=(1.0,), properties={"wattage_per_state": "10:20:30"})
        for index in range(4)
    )
    options = EngineOptions(energy=True)
    Simulation(Platform(compute_hosts=hosts), [workload(ONE)], Scripted(answer), options).run()
    # A delay computes nothing: four idle hosts for ten seconds.
    assert heard == [{"consumed_energy": 400.0}]


def outage(*lines: tuple[float, str, str]) -> tuple[ExternalEvent, ...]:
    return tuple(
        ExternalEvent(date, f"machine_{kind}", HostSet.parse(hosts), {})
        for date, kind, hosts in lines
    )


def test_hosts_that_are_away_take_no_job() -> None:
    away = outage((0.0, "unavailable", "1"))
    with pytest.raises(SimulationError, match="on host 1: it is unavailable \\(host1\\)"):
        simulate(at_begin(EXECUTE), workload(("1", 1.0, 2, 10.0, None)), external_events=away)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (outage((1, "unavailable", "9")), "names hosts 9, which do not exist"),
        (outage((1, "unavailable", "2"), (2, "unavailable", "2-3")), "hosts 2 are already"),
        (outage((1, "available", "2")), "hosts 2 are not unavailable"),
    ],
)
def test_impossible_external_events(events: tuple[ExternalEvent, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(at_begin(EXECUTE), workload(ONE), external_events=events)


def test_our_schedulers_wait_for_hosts_that_are_away() -> None:
    # Two of four hosts are away from 2 to 30. Job b needs three: it waits for them.
    rows: list[Row] = [("a", 0, 2, 5, 6), ("b", 3, 3, 5, 6), ("c", 4, 2, 5, 6)]
    away = outage((2.0, "unavailable", "2-3"), (30.0, "available", "2-3"))
    for name, expected in (("fcfs", [0, 30, 35]), ("easy", [0, 30, 5])):
        simulation = Simulation(
            make_cluster(4),
            [workload(*rows)],
            ModuleDriver(make_scheduler(name)),
            EngineOptions(external_events=away),
        )
        simulation.run()
        ended = sorted(simulation.ended, key=lambda record: record.local_id)
        assert [record.start for record in ended] == expected, name


def test_the_last_external_event_may_concern_no_host() -> None:
    idle = (ExternalEvent(20.0, "machine_unavailable", HostSet(), {}),)
    _, peer = simulate(execute_all({"1": "0-1"}), workload(ONE), external_events=idle)
    assert peer.told[-2:] == [
        (20.0, ["no_more_external_event_to_occur"]),
        (20.0, ["simulation_ends"]),
    ]


def test_an_external_event_may_be_a_rounding_error_later_than_an_end() -> None:
    end = 0.1 + 0.7
    assert end < 0.8
    away = outage((0.8, "unavailable", "3"), (2.0, "available", "3"))
    job: Row = ("1", 0.1, 2, 0.7, None)
    _, peer = simulate(execute_all({"1": "0-1"}), workload(job), external_events=away)
    assert (end, ["event_machine_unavailable", "-w0!1"]) in peer.told


def rejecting_the_wide(_: float, events: list[Event]) -> Iterable[Decision]:
    for event in events:
        if isinstance(event, JobSubmitted):
            wide = event.job.processors > 4
            yield RejectJob(event.job_id) if wide else ExecuteJob(event.job_id, HOSTS)


def test_to_frame_holds_what_the_file_holds() -> None:
    rows: list[Row] = [ONE, ("2", 12.25, 5, 10.0, None)]
    simulation, _ = simulate(rejecting_the_wide, workload(*rows))
    frame = simulation.to_frame()
    texts = {name: str for name in frame if frame[name].dtype.kind not in "fi"}
    written = pd.read_csv(
        io.StringIO(format_jobs(simulation.ended_jobs)),
        dtype=texts,
        keep_default_na=False,
        na_values="",
    )
    for name in texts:
        written[name] = written[name].fillna("")
    assert list(frame) == list(written)
    for name in frame:
        assert frame[name].dtype.kind == written[name].dtype.kind, name
        assert list(frame[name].fillna(-7)) == list(written[name].fillna(-7)), name
    assert math.isnan(frame["finish_time"][1])


def test_representations_are_short() -> None:
    rows: list[Row] = [ONE, ("2", 12.25, 5, 10.0, None)]
    simulation, _ = simulate(rejecting_the_wide, workload(*rows))
    assert repr(simulation) == (
        "Simulation(jobs ended: 1, jobs rejected: 1, hosts: 4, makespan: 10 s)"
    )
    assert "<th>makespan</th><td>10 s</td>" in simulation._repr_html_()
    assert [repr(record) for record in simulation.ended] == [
        "JobRecord('w0!1', COMPLETED_SUCCESSFULLY, submitted=0, start=0, finish=10, hosts='0-1')",
        "JobRecord('w0!2', REJECTED, submitted=12.25)",
    ]


def test_a_dropped_simulation_leaves_nothing_behind() -> None:
    gc.collect()
    gc.disable()
    try:
        simulation = qops_batsim.simulate("easy", "tiny_8", None)
        gc.disable()
        record = weakref.ref(simulation)
        del simulation
        assert record() is None
    finally:
        gc.enable()
