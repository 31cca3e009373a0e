"""Schedulers inside a batsim-py simulation (batsim-py 1.0.5).

batsim-py starts the process named ``batsim`` on PATH, which may be the embedded
engine (``qops-batsim engine --install``), speaks the protocol with it, and keeps its own
picture of jobs and hosts. A module takes part as batsim-py's users do: it hears
what batsim-py publishes, and acts through ``allocate``, ``reject_job``,
``kill_job`` and ``set_callback``.

What batsim-py does not pass on, a module does not get: dates are whole seconds,
rounded down; a requested call comes 0.09 s late, on the next whole second at the
earliest; return codes other than 0 are unknown; hosts have no zone properties.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.system import HostDescription
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_SUCCESSFULLY, Job
from qops_batsim.protocol import decisions as d
from qops_batsim.protocol import events as e
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.port import AnyScheduler, SchedulerModule, make_scheduler

UNKNOWN_RETURN_CODE = -1
"""Return code told for a job without success: batsim-py does not keep the real one."""


class ModuleAgent:
    """Makes the decisions of a batsim-py simulation with a scheduler of this package.

    Make it before the simulation starts, and let it act whenever the simulation
    has stopped at an event::

        agent = ModuleAgent(simulator, "easy")
        simulator.start(platform="platform.xml", workload="workload.json")
        while simulator.is_running:
            agent.act()
            simulator.proceed_time()

    ``proceed_time()`` without a time goes on to the next message of the engine;
    with one, it passes over messages, and the module sees their events late.

    Parameters
    ----------
    simulator
        batsim-py's ``SimulatorHandler``.
    scheduler
        A registered name, or a scheduler of your own.
    settings
        The scheduler's options by name; only with a registered name.
    """

    def __init__(
        self,
        simulator: Any,
        scheduler: AnyScheduler,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        from batsim_py import HostEvent, JobEvent, SimulatorEvent

        if simulator.is_running:
            raise InputError(
                "the simulation is running; make the ModuleAgent before simulator.start()"
            )
        self.module = make_scheduler(scheduler, settings)
        self._simulator = simulator
        self._driver = ModuleDriver(self.module, any_engine=True)
        self._events: list[e.Event] = []
        self._jobs: dict[str, Any] = {}
        self._unavailable: set[int] = set()
        self._submitter_was_finished = False
        simulator.subscribe(SimulatorEvent.SIMULATION_BEGINS, self._begins)
        simulator.subscribe(SimulatorEvent.SIMULATION_ENDS, self._ends)
        simulator.subscribe(JobEvent.SUBMITTED, self._submitted)
        simulator.subscribe(JobEvent.COMPLETED, self._completed)
        simulator.subscribe(HostEvent.STATE_CHANGED, self._host_changed)

    def act(self) -> None:
        """Pass all events since the last call to the scheduler, and carry out its decisions in the
        batsim-py simulation.

        A kill is carried out at once, and the scheduler then decides again, knowing which jobs
        were killed. Everything else reaches the engine with the next ``proceed_time``. A decision
        that batsim-py refuses or does not know is a SimulationError.
        """
        if self._simulator.is_submitter_finished and not self._submitter_was_finished:
            self._submitter_was_finished = True
            self._events.append(e.Notify.of(e.NO_MORE_STATIC_JOBS))
        while True:
            for decision in self._decisions():
                self._carry_out(decision)
            if not self._events:
                return

    def _decisions(self) -> list[d.Decision]:
        """Tell the scheduler what has happened since the last call; return its decisions."""
        events = self._events
        self._events = []
        return self._driver.decisions_on(float(self._simulator.current_time), events)

    # What happens

    def _begins(self, simulator: Any) -> None:
        hosts = list(simulator.platform.hosts)
        self._submitter_was_finished = False
        self._unavailable.clear()
        self._jobs.clear()

        self._events.append(
            e.SimulationBegins(
                nb_resources=simulator.platform.size,
                nb_compute_resources=len(hosts),
                nb_storage_resources=simulator.platform.size - len(hosts),
                allow_compute_sharing=any(host.is_shareable for host in hosts),
                config=e.EngineConfig(profiles_forwarded_on_submission=True),
                compute_resources=[
                    HostDescription(host.id, host.name, properties=host.metadata or {})
                    for host in hosts
                ],
            )
        )

    def _ends(self, _: Any) -> None:
        # At once: the simulation is over, and no further decision will be asked for.
        self._events.append(e.SimulationEnds())
        self._decisions()

    def _submitted(self, job: Any) -> None:
        self._jobs[job.id] = job
        fields = {
            "subtime": job.subtime,
            **job.metadata,
            "id": job.id,
            "res": job.res,
            "profile": job.profile.name,
        }
        if job.walltime is not None:
            fields["walltime"] = job.walltime
        self._events.append(e.JobSubmitted(job.id, Job.from_fields(fields, where="JOB_SUBMITTED")))

    def _completed(self, job: Any) -> None:
        state = job.state.name
        return_code = 0 if state == COMPLETED_SUCCESSFULLY else UNKNOWN_RETURN_CODE
        self._events.append(e.JobCompleted(job.id, state, return_code, HostSet.of(job.allocation)))

    def _host_changed(self, host: Any) -> None:
        if host.is_unavailable == (host.id in self._unavailable):
            return
        self._unavailable ^= {host.id}
        kind = e.MACHINES_AWAY if host.is_unavailable else e.MACHINES_BACK
        self._events.append(e.Notify.of(kind, resources=str(host.id)))

    # What the module decides

    def _carry_out(self, decision: d.Decision) -> None:
        try:
            self._apply(decision)
        except (LookupError, RuntimeError, ValueError) as error:
            raise self._error(f"batsim-py refuses {decision}: {error}") from error

    def _apply(self, decision: d.Decision) -> None:
        simulator = self._simulator
        match decision:
            case d.ExecuteJob(job_id, hosts, mapping, storage_mapping) if (
                # Which executor of a job is on which of its hosts can be left open.
                mapping is None or len(mapping) == len({*mapping.values()}) == len(hosts)
            ):
                simulator.allocate(job_id, list(hosts), storage_mapping)
            case d.ExecuteJob(job_id):
                raise self._error(
                    f"job {job_id!r} has tasks that share hosts, for which batsim-py would have to "
                    "send a mapping of its executors, as it cannot"
                )
            case d.RejectJob(job_id):
                simulator.reject_job(job_id)
            case d.KillJob(job_ids):
                self._kill(job_ids)
            case d.CallMeLater(date):
                simulator.set_callback(math.ceil(date), self._called)
            case d.SetJobMetadata(job_id, metadata):
                # There is no way to the engine: the user of batsim-py finds it at the job.
                self._jobs[job_id].metadata["metadata"] = metadata
            case _:
                raise self._error(f"{decision.TYPE} is not possible in batsim-py ({decision})")

    def _called(self, _: float) -> None:
        self._events.append(e.RequestedCall())

    def _kill(self, job_ids: list[str]) -> None:
        killed = []
        for job_id in job_ids:
            job = self._jobs[job_id]
            if job.is_finished:
                continue  # It ended while another one was killed: the kill is just too late.
            self._simulator.kill_job(job_id)
            if job.state.name == COMPLETED_KILLED:
                killed.append(job_id)
        self._events.append(e.JobKilled(killed))

    def _error(self, what: str) -> SimulationError:
        return SimulationError(f"at {self._simulator.current_time:.6f} s: {what}")


@contextmanager
def engine_watched(simulator: Any) -> Iterator[None]:
    """Context manager: raise a SimulationError inside the block when the Batsim process that
    batsim-py has started fails.

    batsim-py itself would wait for ever for the next message, also when the engine has
    refused its input or a decision and is gone. Works in the main thread only, as
    batsim-py does.
    """

    def child_has_changed(*_: object) -> None:
        # batsim-py publishes neither the process nor its number.
        engine = getattr(simulator, "_SimulatorHandler__simulator", None)
        if engine is None:
            return

        try:
            # Only looking: batsim-py itself has to find the exit code.
            end = os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return  # batsim-py has found it just now.

        if end is None or end.si_status == 0:
            return

        exited = end.si_code == os.CLD_EXITED
        if end.si_status == (128 + signal.SIGTERM if exited else signal.SIGTERM):
            return  # batsim-py itself closes the simulation.
        how = f"exit code {end.si_status}" if exited else f"signal {end.si_status}"
        raise SimulationError(
            f"at {simulator.current_time:.6f} s: batsim has ended with {how}; its standard "
            "error stream says why"
        )

    before = signal.signal(signal.SIGCHLD, child_has_changed)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if before is None else before)


def run_scheduler(
    simulator: Any,
    scheduler: AnyScheduler,
    settings: Mapping[str, Any] | None = None,
    *,
    platform: str,
    workload: str,
    **start: Any,
) -> SchedulerModule:
    """Run a whole batsim-py simulation with a scheduler; return the scheduler.

    The simulation is closed at the end, also after an error, so that no process
    is left behind.

    Parameters
    ----------
    simulator, scheduler, settings
        See :class:`ModuleAgent`.
    platform, workload
        Paths of the SimGrid platform and the Batsim workload; batsim-py wants
        them without spaces.
    start
        Further arguments of ``SimulatorHandler.start``, such as ``verbosity``,
        ``simulation_time`` or ``allow_compute_sharing``.

    Raises
    ------
    SimulationError
        batsim-py refuses a decision, or has nothing like it; or the engine has
        failed, see :func:`engine_watched`.

    Examples
    --------
    ::

        from batsim_py import SimulatorHandler
        run_scheduler(SimulatorHandler(), "easy", platform="cluster.xml", workload="kth.json")
    """
    agent = ModuleAgent(simulator, scheduler, settings)
    try:
        with engine_watched(simulator):
            simulator.start(platform=str(platform), workload=str(workload), **start)
            while simulator.is_running:
                agent.act()
                simulator.proceed_time()
    finally:
        simulator.close()
    return agent.module
