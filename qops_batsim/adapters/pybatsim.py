"""Our schedulers as a scheduler of pybatsim 3.2.1 and 4.0.

pybatsim speaks Batsim's protocol itself and calls a scheduler object once for
each event. The class made here translates those calls back into events, hands
all events of a message to the module at once, as every engine does, and sends
what the module decides through pybatsim's own functions.

There is one class, :class:`Qops`; its option ``scheduler`` names the decision module: a registered
name, or ``FILE.py:CLASS``. pybatsim 4 finds it through an entry point, as ``qops``; for
pybatsim 3.2.1, a file ``qops.py`` with the line ``from qops_batsim.adapters.pybatsim import Qops``
is a scheduler. pybatsim is imported only when the class is made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.system import HostDescription
from qops_batsim.errors import InputError, QopsError, SimulationError
from qops_batsim.jobs import Job
from qops_batsim.protocol import decisions as d
from qops_batsim.protocol import events as e
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.port import make_scheduler
from qops_batsim.schedulers.registry import scheduler_names

BASES = ("pybatsim.batsim.batsim", "batsim.batsim")
"""Modules that hold ``BatsimScheduler``: in pybatsim 4 and in pybatsim 3."""


class ModuleScheduler:
    """A scheduler for pybatsim that passes each of pybatsim's callbacks on to a scheduler of this
    package.

    :func:`scheduler_with` combines this class with pybatsim's ``BatsimScheduler``. The names of the
    methods are pybatsim's.

    pybatsim drops a JOB_KILLED that names no job, so a module never hears that
    a kill came too late, and the answer to a query is passed over, as everywhere.

    Parameters
    ----------
    options
        As given to pybatsim with ``-o``: the ``scheduler``, and the module's own options by name.
        A mistake in them ends the program (SystemExit): for anything else pybatsim shows a
        traceback.
    """

    bs: Any
    """pybatsim's ``Batsim`` object, set by pybatsim."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        settings = dict(options or {})
        super().__init__(dict(settings))  # type: ignore[call-arg]
        with _errors_on_one_line():
            scheduler = settings.pop("scheduler", None)
            if not isinstance(scheduler, str):
                raise InputError(
                    """no scheduler is given; -o '{"scheduler": "easy"}' is expected, or """
                    f"another of {', '.join(scheduler_names())}, or FILE.py:CLASS; its options "
                    "stand next to it"
                )
            self.module = make_scheduler(scheduler, settings)

        self._driver = ModuleDriver(self.module, any_engine=True)
        self._events: list[e.Event] = []

    # What happens, in the order of the events of a message

    def onSimulationBegins(self) -> None:  # noqa: N802
        bs = self.bs
        with _errors_on_one_line():
            if bs.scheduler is not self:
                # Its ValidatingMachine keeps onNoMoreEvents to itself: nothing would be decided.
                raise InputError(
                    "schedulers of qops-batsim cannot run with pybatsim's --protect; start "
                    "pybatsim without this option"
                )

        self._events.append(
            e.SimulationBegins(
                nb_resources=bs.nb_resources,
                nb_compute_resources=bs.nb_compute_resources,
                nb_storage_resources=bs.nb_storage_resources,
                allow_compute_sharing=bs.allow_compute_sharing,
                allow_storage_sharing=bs.allow_storage_sharing,
                config=msgspec.convert(bs.batconf, e.EngineConfig),
                compute_resources=msgspec.convert(bs.machines["compute"], list[HostDescription]),
                workloads=bs.workloads,
                profiles=bs.profiles,
            )
        )

    def onJobSubmission(self, job: Any) -> None:  # noqa: N802
        with _errors_on_one_line():
            self._events.append(
                e.JobSubmitted(job.id, Job.from_fields(job.json_dict, where="JOB_SUBMITTED"))
            )

    def onJobCompletion(self, job: Any) -> None:  # noqa: N802
        hosts = HostSet.parse(str(job.allocation))
        self._events.append(e.JobCompleted(job.id, job.job_state.name, job.return_code, hosts))

    def onJobsKilled(self, jobs: Any) -> None:  # noqa: N802
        progress = {job.id: job.progress for job in jobs}
        self._events.append(e.JobKilled(list(progress), progress))

    def onRequestedCall(self) -> None:  # noqa: N802
        self._events.append(e.RequestedCall())

    def onNoMoreJobsInWorkloads(self) -> None:  # noqa: N802
        self._events.append(e.Notify.of(e.NO_MORE_STATIC_JOBS))

    def onNoMoreExternalEvents(self) -> None:  # noqa: N802
        self._events.append(e.Notify.of(e.NO_MORE_EXTERNAL_EVENTS))

    def onNotifyEventMachineUnavailable(self, machines: Any) -> None:  # noqa: N802
        self._events.append(e.Notify.of(e.MACHINES_AWAY, resources=str(machines)))

    def onNotifyEventMachineAvailable(self, machines: Any) -> None:  # noqa: N802
        self._events.append(e.Notify.of(e.MACHINES_BACK, resources=str(machines)))

    def onNotifyGenericEvent(self, event_data: dict[str, Any]) -> None:  # noqa: N802
        self._events.append(e.Notify(event_data))

    def onSimulationEnds(self) -> None:  # noqa: N802
        self._events.append(e.SimulationEnds())

    def onMachinePStateChanged(self, nodeid: Any, pstate: Any) -> None:  # noqa: N802
        """Do nothing: no scheduler of this package uses power states."""

    def onReportEnergyConsumed(self, consumed_energy: Any) -> None:  # noqa: N802
        """Do nothing: no scheduler of this package asks for consumed energy."""

    def onJobMessage(self, timestamp: Any, job: Any, message: Any) -> None:  # noqa: N802
        """Do nothing: no scheduler of this package reads messages of jobs."""

    # What the module decides, after the last event of a message

    def onNoMoreEvents(self) -> None:  # noqa: N802
        events = self._events
        self._events = []
        with _errors_on_one_line():
            for decision in self._driver.decisions_on(self.bs.time(), events):
                self._send(decision)

    def _send(self, decision: d.Decision) -> None:
        bs = self.bs
        match decision:
            case d.ExecuteJob(job_id, hosts, mapping, None):
                from procset import ProcSet

                job = bs.jobs[job_id]
                job.allocation = ProcSet.from_str(str(hosts))
                if mapping is not None:
                    job.mapping = mapping
                bs.execute_job(job)
            case d.RejectJob(job_id):
                bs.reject_jobs_by_id([job_id])
            case d.KillJob(job_ids):
                bs.kill_jobs([bs.jobs[job_id] for job_id in job_ids])
            case d.CallMeLater(date):
                bs.wake_me_up_at(date)
            case d.SetJobMetadata(job_id, metadata):
                bs.set_job_metadata(job_id, metadata)
            case d.RegisterProfile(workload, name, profile):
                bs.register_profiles(workload, {name: profile})
            case d.RegisterJob(job_id, job):
                registered = bs.register_job(job_id, job.processors, job.walltime, job.profile)
                # pybatsim sends this very object: with all our fields, it is the job as decided.
                registered.json_dict.clear()
                registered.json_dict.update(job.fields, id=job_id)
            case e.Notify(type="registration_finished"):
                bs.notify_registration_finished()
            case _:
                raise SimulationError(
                    f"at {bs.time():.6f} s: {decision.TYPE} cannot be sent through pybatsim"
                )


def scheduler_with(base: type) -> type[ModuleScheduler]:
    """Return the class ``Qops`` that pybatsim loads: :class:`ModuleScheduler` derived from
    ``base``, pybatsim's ``BatsimScheduler``.
    """
    return type("Qops", (ModuleScheduler, base), {"__module__": __name__})


def __getattr__(name: str) -> type[ModuleScheduler]:
    if name == "Qops":
        return scheduler_with(_installed_base())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _installed_base() -> type:
    # With both installed, the running one counts: only its own classes will do.
    for name in sorted(BASES, key=lambda module: module not in sys.modules):
        try:
            base: type = import_module(name).BatsimScheduler
            return base
        except ModuleNotFoundError as error:
            if not name.startswith(error.name or name):
                raise
    raise InputError(
        "pybatsim is not installed; pip install --no-deps pybatsim==3.2.1 (or 4.0.0a0), "
        "docopt, procset and sortedcontainers are needed"
    )


@contextmanager
def _errors_on_one_line() -> Iterator[None]:
    """Context manager: end the program with an error message of one line where pybatsim would print
    a traceback.
    """
    try:
        yield
    except QopsError as error:
        raise SystemExit(f"qops-batsim: error: {error}") from None
