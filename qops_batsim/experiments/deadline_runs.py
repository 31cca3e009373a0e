"""Runs of schedulers on deadline workloads, for comparisons, studies and papers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from qops_batsim.code_record import CodeRecord
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.economics.charges import SlowdownTable, category_slowdowns
from qops_batsim.engine.ended_jobs import EndedJobs
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import InputError, SimulationError, did_you_mean, require, typed_text
from qops_batsim.experiments.changed_options import ChangedOptions, changed_options
from qops_batsim.experiments.deadline_workload import Measured, easy_ends, measure, scaled_workload
from qops_batsim.measures.metrics.charge_totals import References, reference_of_workload
from qops_batsim.measures.metrics.measures import Measures, study_measures
from qops_batsim.measures.metrics.outcomes import (
    JobOutcomes,
    outcomes_of_simulation,
    with_drift,
    with_parts,
)
from qops_batsim.measures.results.allocations import Allocations, Stays, on_all_hosts
from qops_batsim.measures.results.message_drift import drift_behind
from qops_batsim.measures.results.result_tables import Floats, Integers
from qops_batsim.measures.verify.outcome_rules import broken_rule
from qops_batsim.parameters import (
    ARTIFICIAL,
    COUNT,
    LOAD,
    METHOD,
    RELAXATION,
    SEED,
    SHARE,
    STRINGENCY,
    USERS,
    is_strict,
)
from qops_batsim.platform.equal_hosts import make_cluster
from qops_batsim.platform.network import longest_round_trip
from qops_batsim.platform.platform_model import Platform
from qops_batsim.protocol.port import SchedulerModule, make_scheduler
from qops_batsim.running.inputs import AnyEvents
from qops_batsim.running.simulate import default_engine, simulate
from qops_batsim.schedulers.loading.plugins import short_name
from qops_batsim.schedulers.registry import (
    code_of_scheduler,
    given_class,
    parse_scheduler,
    stands_for,
)
from qops_batsim.timing import least_grace
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.estimates import EstimateChoices, users_estimates, with_estimates
from qops_batsim.workload.need import NeedChoices
from qops_batsim.workload.scale import PAPER_JOBS
from qops_batsim.workload.workload_model import Workload, settled

BLIND = ("fcfs", "easy", "conservative")
"""Schedulers that do not look at deadlines."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline workload, described by a window of a log, its load, and its deadlines.

    The parameters are those of :func:`~.deadline_workload.deadline_workload` and of
    :class:`~qops_batsim.workload.deadlines.DeadlineChoices`; ``log`` is what identifies the log
    among those of a :class:`DeadlineRuns`.

    With ``estimates``, exact ones are replaced by those of a model after the deadlines are given,
    which these are ``deadlines_by``: EASY with ``"exact"`` estimates, or EASY with the ``"users"``,
    and no user's deadline is earlier than submission + walltime then.

    With a ``need``, deadlines are made by it, and not by EASY; share, artificial deadlines and seed
    are those of the scenario.
    """

    log: str
    skip: int = 0
    first: int | None = PAPER_JOBS
    load: float = LOAD.default
    method: str = METHOD.default
    same_time: bool = False
    reference: str = "scaled"
    stringency: float = STRINGENCY.default
    share: float = SHARE.default
    artificial: str = ARTIFICIAL.default
    relaxation: float = RELAXATION.default
    seed: int = SEED.default
    # What is unset is no part of a key: kept runs are older than these.
    deadlines_by: str | msgspec.UnsetType = msgspec.UNSET
    estimates: EstimateChoices | msgspec.UnsetType = msgspec.UNSET
    need: NeedChoices | msgspec.UnsetType = msgspec.UNSET

    @property
    def draws(self) -> bool:
        """Whether the seed changes the jobs, so that runs with other seeds are repetitions."""
        by_need = self.need is not msgspec.UNSET and self.share > 0
        return by_need or 0 < self.share < 1 or (self.method == "duplication" and self.load > 1)

    def canonical(self) -> Scenario:
        """Return the representative of all scenarios that have the same workload.

        The seed matters only where jobs are drawn, to be submitted again or to have a deadline;
        the artificial deadlines only where there are any.
        """
        changes: dict[str, Any] = {} if self.draws else {"seed": SEED.default}
        if self.share == 1:
            changes |= {each.name: each.default for each in (ARTIFICIAL, RELAXATION)}
        elif self.artificial == "none":
            changes["relaxation"] = RELAXATION.default
        if self.share == 0 or self.need is not msgspec.UNSET:
            changes["stringency"] = STRINGENCY.default
        return msgspec.structs.replace(self, **changes)

    def without_deadlines(self) -> Scenario:
        """Return the representative of all scenarios that differ from this one only in deadlines.

        It has them for all jobs: so the seed matters only where jobs are submitted again.
        """
        by_easy: dict[str, Any] = {"stringency": STRINGENCY.default, "need": msgspec.UNSET}
        return msgspec.structs.replace(self, share=1.0, **by_easy).canonical()

    def without_estimates(self) -> Scenario:
        """Return the representative of the scenarios that differ only in estimates, deadlines."""
        return msgspec.structs.replace(self.without_deadlines(), estimates=msgspec.UNSET)

    @property
    def has_model(self) -> bool:
        """Whether estimates come from a model."""
        return (self.deadlines_by, self.estimates) != (msgspec.UNSET, msgspec.UNSET)

    @property
    def choices(self) -> DeadlineChoices | NeedChoices:
        """How the jobs get deadlines."""
        others: dict[str, Any] = {
            "share": self.share,
            "artificial": self.artificial,
            "relaxation": self.relaxation,
            "seed": self.seed,
        }
        if isinstance(self.need, NeedChoices):
            return msgspec.structs.replace(self.need, **others)
        return DeadlineChoices(stringency=self.stringency, **others)


class DeadlineCase(msgspec.Struct, frozen=True, kw_only=True):
    """One run: a scheduler with its options, on the workload of a scenario.

    ``code`` is a digest of the scheduler's code, if it is somebody's own
    (:class:`~qops_batsim.code_record.CodeRecord`). If ``strict``, a promise
    that the scheduler breaks is an error. ``outages`` are the seed of hosts that leave and return
    (:class:`~.scores.ScoredRuns`).
    """

    scenario: Scenario
    scheduler: str
    settings: ChangedOptions = ()
    code: str = ""
    strict: bool | msgspec.UnsetType = msgspec.UNSET
    outages: int | msgspec.UnsetType = msgspec.UNSET

    def canonical(self) -> DeadlineCase:
        """Return the representative of all cases that have the same run."""
        return msgspec.structs.replace(self, scenario=self.scenario.canonical())

    def make(self, classes: Mapping[str, type[Scheduler]] | None = None) -> SchedulerModule:
        """Return the scheduler.

        ``classes`` are those that were given in Python, by what stands for them in cases.

        Raises
        ------
        InputError
            If its code is not what the case tells.
        """
        given = (classes or {}).get(self.scheduler)
        module = make_scheduler(given or self.scheduler, dict(self.settings))
        if given is None and self.code:
            found = code_of_scheduler(self.scheduler)
            if found is None or found.digest != self.code:
                raise InputError(
                    f"scheduler {self.scheduler!r}: its code is not the same here as where the "
                    "comparison began, or has changed since; start the comparison again"
                )
        return module


@dataclass
class DeadlineRuns:
    """Simulates cases on logs of ``delay`` jobs, which it keeps by digest and processors.

    Without platform there are as many equal hosts as a log is for. Remembered are the last
    workload, the one that it was made of with its EASY schedule, and what schedulers that do not
    look at deadlines did with that. ``classes`` are schedulers that were given in Python, by what
    stands for them in cases.
    """

    logs: Mapping[str, Workload]
    platform: Platform | None = None
    message_delays: bool = True
    classes: Mapping[str, type[Scheduler]] = field(default_factory=dict)
    _last: tuple[Scenario, Workload] | None = field(default=None, init=False)
    _measured: tuple[Scenario, Measured] | None = field(default=None, init=False)
    _ends: dict[str, float] | None = field(default=None, init=False)
    _prices: tuple[References, SlowdownTable] | None = field(default=None, init=False)
    _blind: dict[DeadlineCase, tuple[JobOutcomes, int]] = field(default_factory=dict, init=False)

    def __call__(self, case: DeadlineCase) -> Measures:
        """Run a case, check its schedule, and return its metrics."""
        found = self.outcomes(case)
        if not case.scenario.has_model:
            return study_measures(*found)
        if self._prices is None:
            measured = self._measure(case.scenario)
            references = reference_of_workload(
                measured.prepared,
                measured.response_times,
                machine=None if self.platform is None else self.platform.machine,
            )
            self._prices = references, category_slowdowns(references.values())
        return study_measures(*found, *self._prices)

    def outcomes(self, case: DeadlineCase) -> tuple[JobOutcomes, int]:
        """Run a case, check its schedule; return the jobs' outcomes and the number of hosts."""
        workload = self.workload(case.scenario)
        if case.scheduler in BLIND:
            return self._seen(case, workload)
        return self._outcomes(case, workload)

    def _seen(self, case: DeadlineCase, workload: Workload) -> tuple[JobOutcomes, int]:
        """Return the outcomes under a scheduler that ignores deadlines, simulated only once."""
        same = msgspec.structs.replace(case, scenario=case.scenario.without_deadlines())
        if same not in self._blind:
            self._blind[same] = self._outcomes(case, workload)
        outcomes, hosts = self._blind[same]
        return outcomes.with_deadlines_of(workload), hosts

    def _outcomes(self, case: DeadlineCase, workload: Workload) -> tuple[JobOutcomes, int]:
        machine = self.platform or make_cluster(workload.processors)
        module = case.make(self.classes)
        seed = f"at load {case.scenario.load:g} with seed {case.scenario.seed}"
        options = "".join(f" {name}={value}" for name, value in case.settings)
        what = f"{case.scheduler}{options} {seed}"
        return checked_outcomes(
            *(workload, machine, module, what),
            message_delays=self.message_delays,
            strict=case.strict is True,
        )

    def workload(self, scenario: Scenario) -> Workload:
        """Return the deadline workload that a scenario describes."""
        if self._last is None or self._last[0] != scenario:
            scenario.choices.check()
            measured = self._measure(scenario)
            made = measured.give(scenario.choices)
            self._last = scenario, settled(self._estimated(settled(made), measured, scenario))
        return self._last[1]

    def jobs_of(self, scenario: Scenario) -> float:
        """Return the number of jobs in a scenario's workload, without making the workload."""
        jobs = scenario.first or len(self.logs[scenario.log].jobs) - scenario.skip
        return jobs * (scenario.load if scenario.method == METHOD.default else 1.0)

    def _estimated(self, workload: Workload, measured: Measured, scenario: Scenario) -> Workload:
        """Return a workload with the scenario's estimates."""
        if not scenario.has_model:
            return workload
        given, requests = scenario.estimates, measured.workload
        choices = EstimateChoices() if given is msgspec.UNSET else given
        if choices.model == USERS:
            requests = users_estimates(requests)
            if measured.keep_estimates and all(job.walltime is None for job in requests.jobs):
                return workload
        if choices.needs_ends and self._ends is None:
            self._ends = easy_ends(requests, self.shared_platform)
        return with_estimates(workload, choices, requests=requests, ends=self._ends)

    @property
    def shared_platform(self) -> Platform | None:
        """The platform, if jobs share its hosts by amounts: then EASY needs it for deadlines."""
        has_amounts = self.platform is not None and self.platform.machine is not None
        return self.platform if has_amounts else None

    def _measure(self, scenario: Scenario) -> Measured:
        """Return a scenario's workload without deadlines, and its schedule under EASY."""
        same = scenario.without_estimates()
        if self._measured is None or self._measured[0] != same:
            scaled = scaled_workload(
                self.logs[scenario.log],
                scenario.load,
                method=scenario.method,
                same_time=scenario.same_time,
                skip=scenario.skip,
                first=scenario.first,
                seed=scenario.seed,
            )
            keep = scenario.deadlines_by == USERS
            self._measured = (
                same,
                measure(
                    scaled,
                    reference=scenario.reference,
                    keep_estimates=keep,
                    platform=self.shared_platform,
                ),
            )
            self._ends = self._prices = None
            self._blind.clear()
        return self._measured[1]


def shared_steps(case: DeadlineCase) -> Scenario:
    """Return the part of a case's scenario that, if equal, lets cases share steps of their work."""
    return case.scenario.without_estimates()


def checked_outcomes(
    workload: Workload,
    platform: Platform,
    module: SchedulerModule,
    what: str,
    *,
    message_delays: bool = True,
    events: AnyEvents | None = None,
    strict: bool = True,
) -> tuple[JobOutcomes, int]:
    """Run a scheduler on a workload with exact estimates and check its schedule.

    Parameters
    ----------
    workload, platform, module
        The inputs of the run; the workload's estimates equal the run times.
    what
        Name of the run for error messages.
    message_delays
        Whether messages take their time on a platform with latencies.
    events
        Hosts that leave and return, if any.
    strict
        Whether a broken promise is an error.

    Returns
    -------
    outcomes, hosts
        The jobs' outcomes, whose drift includes the scheduler's grace, and the number of hosts.
    """
    outcomes, simulation = outcomes_of(
        workload, platform, module, message_delays=message_delays, events=events
    )
    hosts = len(simulation.hosts)
    if simulation.has_message_delays:
        round_trip = longest_round_trip(platform)
        grace = min(getattr(module.options, "grace", 0.0), least_grace(round_trip))
        shared = platform.machine is not None
        outcomes = _with_drift(outcomes, simulation.ended_jobs, grace, round_trip, shared)
        outcomes = replace(outcomes, drift=outcomes.drift + grace)
    # Hosts that are shared by amounts run more than one job.
    limit = hosts if platform.machine is None else None
    broken = broken_rule(outcomes, limit, strict=strict)
    if broken is not None:
        raise SimulationError(f"{what}: {broken}")
    return outcomes, hosts


def _with_drift(
    outcomes: JobOutcomes, ended: EndedJobs, grace: float, round_trip: float, shared: bool
) -> JobOutcomes:
    """Return outcomes with each job's drift: lateness beyond the grace that messages explain."""
    late = outcomes.late(grace)
    if not (grace and late.any()):
        return outcomes

    def drift_of(rows: Integers) -> Floats:
        offsets, first, last = ended.hosts
        jobs, hosts = on_all_hosts(
            Allocations(np.repeat(np.arange(len(ended.states)), np.diff(offsets)), first, last)
        )
        stays = Stays(jobs, hosts, ended.starts[jobs], ended.finishes[jobs])
        dates = ended.submission_times, ended.starts, ended.finishes
        return drift_behind(rows, stays, *dates, round_trip, shared=shared)

    runs = np.flatnonzero(ended.ran)
    return with_drift(outcomes, np.flatnonzero(late), ended.ids, runs, drift_of)


def outcomes_of(
    workload: Workload,
    platform: Platform,
    module: SchedulerModule,
    *,
    message_delays: bool = True,
    events: AnyEvents | None = None,
) -> tuple[JobOutcomes, Simulation]:
    """Run a scheduler on a workload; return what became of the jobs, and the simulation.

    Parameters
    ----------
    workload, platform, module
        The inputs of the run.
    message_delays
        Whether messages take their time on a platform with latencies.
    events
        Hosts that leave and return, if any.
    """
    options = default_engine(module, platform, message_delays=message_delays, events=events)
    simulation = simulate(module, workload, platform, engine=options)
    promised, latest, predicted = (
        {job_id.partition("!")[2]: noted for job_id, noted in module.qos_log.promises(each).items()}
        for each in ("admitted_deadline", "latest_start", "predicted_run_time")
    )
    ended = simulation.ended_jobs
    outcomes = outcomes_of_simulation(ended, workload, promised, platform.machine)

    # Parts that ran at another speed, where hosts are shared.
    if simulation.options.compute_sharing and platform.machine is None:
        run_times = ended.finishes - ended.starts
        outcomes = with_parts(outcomes, ended.ids, ended.starts, run_times, ended.profiles.texts())

    def column(noted: Mapping[str, float]) -> Floats:
        return np.array([noted.get(job_id, math.nan) for job_id in outcomes.ids])

    if latest:
        outcomes = replace(outcomes, latest_start=column(latest))
    if predicted:
        outcomes = replace(outcomes, predicted=column(predicted))
    return outcomes, simulation


class Contestant(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler with its options, and its name in tables and pictures."""

    name: str
    scheduler: str
    settings: dict[str, Any] = {}

    def make(self) -> SchedulerModule:
        """Return the scheduler, after checking its options."""
        return make_scheduler(self.scheduler, self.settings)

    def case(self, scenario: Scenario) -> DeadlineCase:
        """Return the case that runs the contestant on a scenario."""
        return self.case_of(scenario, *self.identity())

    def case_of(
        self,
        scenario: Scenario,
        settings: ChangedOptions,
        code: str,
        on_broken_promise: str = COUNT,
    ) -> DeadlineCase:
        """Return the case that runs the contestant on a scenario.

        ``settings`` and ``code`` are the two values of :meth:`identity`.
        """
        return DeadlineCase(
            scenario=scenario,
            scheduler=self.scheduler,
            # As read from a file they have lists and tables.
            settings=changed_options(settings),
            code=code,
            strict=is_strict(on_broken_promise) or msgspec.UNSET,
        )

    def identity(self) -> tuple[ChangedOptions, str]:
        """Return the contestant's options that are not defaults, and the digest of its own code,
        "" for a scheduler of this package.
        """
        options = msgspec.to_builtins(self.make().options)
        defaults = msgspec.to_builtins(make_scheduler(self.scheduler).options)
        changed = changed_options(each for each in options.items() if each[1] != defaults[each[0]])
        return changed, self.code.digest

    @property
    def code(self) -> CodeRecord:
        """What its code consists of, empty for a scheduler of this package; it was made before."""
        return code_of_scheduler(self.scheduler) or CodeRecord()


def contestant_of(text: str) -> Contestant:
    """Parse a contestant from text such as ``qops:k_factor=1``.

    Examples
    --------
    >>> contestant_of("qops:k_factor=1,order=earliest_deadline").settings
    {'k_factor': 1, 'order': 'earliest_deadline'}
    >>> contestant_of("mine.py:Mine:k_factor=1").name
    'Mine:k_factor=1'
    """
    scheduler, settings = parse_scheduler(text)
    name = short_name(scheduler) + text[len(scheduler) :]
    return Contestant(name=name, scheduler=scheduler, settings=settings)


AnyContestant = str | type[Scheduler] | Contestant
"""A text as of :func:`contestant_of`, a class, or a contestant, whose scheduler may be a class."""

_EACH = "the name of a scheduler, FILE.py:CLASS, a subclass of Scheduler or a Contestant"


def contestants_of(
    schedulers: Iterable[AnyContestant], settings: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Contestant, ...]:
    """Return several contestants, each given by a text such as ``qops:k_factor=1`` or a class.

    Settings are by the name of a scheduler, for all its contestants, whose own settings go first,
    or of a contestant. Classes have their names in tables, before which the module's stands where
    two have the same.
    """
    settings = settings or {}
    contestants = []
    for each in _named([*schedulers]):
        is_mapping = isinstance(each.settings, Mapping)
        accepted = "options by name are expected"
        require(is_mapping, f"settings of {each.name}", each.settings, accepted)

        of_all = settings.get(each.scheduler, {})
        own = settings.get(each.name, {})
        merged = {**of_all, **each.settings, **own}
        contestants.append(msgspec.structs.replace(each, settings=merged))

    known = {name for each in contestants for name in (each.name, each.scheduler)}
    for name in settings:
        if name not in known:
            raise InputError(f"options of {name}: it is not compared{did_you_mean(name, known)}")
    return tuple(contestants)


def _named(given: Sequence[object]) -> Iterator[Contestant]:
    """Yield the contestants; InputError for what is none."""
    classes = {id(each): each for each in given if isinstance(each, type)}
    names = [each.__name__ for each in classes.values()]
    taken: dict[str, type[Scheduler]] = {}
    for each in given:
        if isinstance(each, str):
            yield contestant_of(each)
            continue

        own = each if isinstance(each, Contestant) else None
        kind = each if own is None else own.scheduler
        if isinstance(kind, type) and issubclass(kind, Scheduler):
            text = stands_for(kind, taken)
            taken[text] = kind
            if own is not None:
                yield msgspec.structs.replace(own, scheduler=text)
                continue
            is_shared = names.count(kind.__name__) > 1
            is_given = given_class(text) is not None
            yield Contestant(
                name=kind.__name__ if is_given and not is_shared else text, scheduler=text
            )
        elif own is not None and isinstance(kind, str):
            yield own
        else:
            raise InputError(f"schedulers hold {typed_text(each)}; {_EACH} is expected")


def check_distinct(what: str, values: Iterable[object]) -> None:
    """Raise :class:`~qops_batsim.errors.InputError` if values are missing or repeated."""
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    if not texts:
        raise InputError(f"no {what} to compare; at least one is expected")
    twice = next((each for each in texts if texts.count(each) > 1), None)
    if twice is not None:
        raise InputError(f"{what} {twice} is given twice; once is expected")
