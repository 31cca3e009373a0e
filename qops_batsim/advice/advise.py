"""Advice on a trace: deadlines that could have been promised, their price and their cost.

The method is that of Islam et al. (2003, 2004): users ask to end earlier than under EASY
backfilling, a deadline scheduler admits whom it can serve in time, and jobs pay for
processors and for urgency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from qops_batsim.advice.site_fit import site_fit
from qops_batsim.advice.trace_runs import (
    AdviceCase,
    AdviceRun,
    EarliestPromise,
    GroupCount,
    Prepared,
    TraceRuns,
    TraceWindow,
    add_up,
    choose_windows,
    prepare,
    shared_work,
    sized_windows,
)
from qops_batsim.advice.wait_fit import UNKNOWN_FIT, ModelFit, model_fit
from qops_batsim.advice.what_if import WhatIf
from qops_batsim.arguments import CALLABLE, NUMBERS, PATH, TEXT, WHOLE, one_of, several, takes
from qops_batsim.economics.charges import BreakEven, Charge, break_even, total
from qops_batsim.economics.prices import Prices
from qops_batsim.errors import require
from qops_batsim.experiments.deadline_runs import Contestant, check_distinct, contestant_of
from qops_batsim.experiments.pool import WORKERS, Workers, run_cases
from qops_batsim.experiments.statistics import (
    SHARE,
    SHARE_DIFFERENCE,
    Interval,
    mean_interval,
    paired_difference,
)
from qops_batsim.parameters import EXACT
from qops_batsim.running.search_asker import EarliestPromises, watched_scheduler
from qops_batsim.traces.reading import read_trace
from qops_batsim.workload.conversion import Conversion
from qops_batsim.workload.workload_model import Workload, refuse_amounts

HOUR = 3600.0


Measure = Callable[[AdviceRun], float | None]


_LISTS = {
    "stringencies": NUMBERS,
    "loads": NUMBERS,
    "others": several(one_of(Contestant, words="a Contestant"), "a list of Contestants"),
}


class AdviceChoices(msgspec.Struct, frozen=True, kw_only=True):
    """What to simulate to give advice on a trace: schedulers, strictness of the deadlines, loads
    and prices.

    Attributes
    ----------
    scheduler
        The deadline scheduler, with its options.
    others
        Schedulers to compare it with.
    stringency
        S: users ask for (1 - S) of the response under EASY; below 0 they ask for a later end.
    stringencies, loads
        Further values to try; load 1 is the trace itself.
    goal
        Share of the deadlines that should be promised.
    by_scheduler
        The scheduler of the site, whose waits are compared with those of the trace; None: EASY, and
        where that does not fit, those of :mod:`~qops_batsim.advice.site_fit`.
    prices
        Of core-hours and QoS charges. Without one, core-hours count, and a QoS charge has the price
        at which promises cost the centre nothing.
    windows, window_jobs
        How many stretches of the trace are simulated, and how many jobs each has; None: as
        :func:`~qops_batsim.advice.trace_runs.choose_windows` has it.
    """

    scheduler: Contestant = contestant_of("qops")
    others: tuple[Contestant, ...] = (
        contestant_of("fqops:tolerance_factor=2"),
        contestant_of("msb"),
    )
    stringency: float = 0.2
    stringencies: tuple[float, ...] = (0.5, 0.2, 0.0, -0.5, -1.0)
    loads: tuple[float, ...] = (1.0, 1.2, 1.4)
    goal: float = 0.9
    by_scheduler: Contestant | None = None
    prices: Prices = Prices()
    windows: int | None = None
    window_jobs: int | None = None

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        for name, kind in _LISTS.items():
            kind.check(name, getattr(self, name))
        below_1 = "a number from -100 to below 1 is accepted"
        for value in (self.stringency, *self.stringencies):
            require(-100 <= value < 1, "stringency", value, below_1)
        for value in self.loads:
            require(1 <= value <= 10, "load", value, "a number from 1 to 10 is accepted")
        require(0 < self.goal <= 1, "goal", self.goal, "a share above 0, up to 1, is accepted")
        self.prices.check()
        check_distinct("stringency", self.stringencies)
        check_distinct("load", self.loads)
        for name, count in (("windows", self.windows), ("window jobs", self.window_jobs)):
            fits = count is None or count > 0
            require(fits, name, count, "a whole number above 0 is accepted")

    def case(self, **differs: Any) -> AdviceCase:
        """Return the case (scheduler and variant of the workload) of the chosen scheduler and
        stringency, with the fields in ``differs`` changed.

        Where nothing does it is the main case, in which each job is asked for its earliest promise.
        """
        chosen = self.of(self.scheduler)
        case = msgspec.structs.replace(chosen, **differs)
        return msgspec.structs.replace(case, promises=case == chosen)

    def easy(self, **differs: Any) -> AdviceCase:
        """Return the case of EASY on the same workload as :meth:`case`; ``differs`` are the fields
        to change.
        """
        return self.case(scheduler="easy", settings=(), **differs)

    def of(self, scheduler: Contestant) -> AdviceCase:
        """Return the case in which a scheduler serves the trace at load 1, with deadlines of the
        chosen stringency.
        """
        settings, _ = scheduler.identity()
        return AdviceCase(
            window=0, scheduler=scheduler.scheduler, settings=settings, stringency=self.stringency
        )

    @property
    def compared(self) -> list[Contestant]:
        """Return the schedulers that the chosen scheduler is compared with."""
        return [each for each in self.others if each.name != self.scheduler.name]

    @property
    def all_stringencies(self) -> list[float]:
        """Return all strictnesses of the deadlines that are simulated, strictest first."""
        return sorted({self.stringency, *self.stringencies}, reverse=True)

    @property
    def chosen(self) -> AdviceCase:
        """Return the main case: the chosen scheduler at the chosen stringency."""
        return self.case()

    def cases(self) -> list[AdviceCase]:
        """Return all cases (scheduler and variant of the workload) that are simulated on each
        window of the trace.
        """
        cases = [self.easy(), self.chosen]
        for load in self.loads:
            cases += [self.easy(load=load), self.case(load=load)]
        cases.append(self.easy(estimates=EXACT, deadlines_by=EXACT))
        cases += [self.case(estimates=EXACT), self.case(estimates=EXACT, deadlines_by=EXACT)]
        for stringency in self.stringencies:
            cases += [self.easy(stringency=stringency), self.case(stringency=stringency)]
        cases += [self.easy(share=FEW), self.case(share=FEW), *map(self.of, self.compared)]
        return list(dict.fromkeys(cases))


FEW = 0.2
"""A share of users that set a deadline, as in Islam et al. (2003), section 5.2."""


@dataclass(frozen=True)
class Advice:
    """The simulations behind the advice on a trace: its windows, and the result of each case
    (scheduler and variant of the workload) on each window.
    """

    choices: AdviceChoices
    trace: Conversion
    windows: Sequence[TraceWindow]
    prepared: Prepared
    runs: dict[AdviceCase, AdviceRun]
    fit: ModelFit = UNKNOWN_FIT
    name: str = ""
    """The partition, if the trace tells one."""
    what_if: WhatIf | None = None

    @cached_property
    def simulated(self) -> Workload:
        """The jobs and the machine that are simulated: those of the trace, with the ``--what-if``
        changes if there are any.
        """
        whole = self.trace.workload
        return whole if self.what_if is None else self.what_if.change(whole, 1.0, 1)

    @property
    def offered_load(self) -> float | None:
        """Offered load of the simulated jobs."""
        return (self.trace if self.what_if is None else self.simulated).offered_load

    def of(self, case: AdviceCase) -> list[AdviceRun]:
        """Return the results of a case (scheduler and variant of the workload), one for each window
        of the trace.
        """
        numbers = range(len(self.windows))
        return [self.runs[msgspec.structs.replace(case, window=n)] for n in numbers]

    def mean(self, case: AdviceCase, measure: Measure) -> Interval | None:
        """Return the mean of a measure over the windows for a case, with its 95 % confidence
        interval; None if the measure is not known in some window.
        """
        values = [measure(run) for run in self.of(case)]
        known = [value for value in values if value is not None]
        return mean_interval(known, SHARE) if len(known) == len(values) else None

    def difference(self, case: AdviceCase, other: AdviceCase, measure: Measure) -> Interval | None:
        """Return the mean over the windows of ``case`` minus ``other`` in a measure, with its 95 %
        confidence interval; None if it is not known in some window.
        """
        first, second = (
            [value for run in self.of(each) if (value := measure(run)) is not None]
            for each in (case, other)
        )
        if min(len(first), len(second)) < len(self.windows):
            return None
        return paired_difference(first, second, SHARE_DIFFERENCE)

    def counts(self, case: AdviceCase) -> GroupCount:
        """Count the promised, refused and missed deadlines of a case, summed over all windows."""
        return add_up(run.counts for run in self.of(case))

    def groups(self, case: AdviceCase) -> dict[str, GroupCount]:
        """Count the promised, refused and missed deadlines of a case by category of jobs, summed
        over all windows.
        """
        runs = self.of(case)
        names = dict.fromkeys(name for run in runs for name in run.groups)
        return {name: add_up(r.groups[name] for r in runs if name in r.groups) for name in names}

    def charge(self, case: AdviceCase, penalty: float) -> Charge:
        """Return the charges of a case (core-hours, and QoS charges less ``penalty`` times the QoS
        charges of missed deadlines), summed over all windows.
        """
        paid = total(
            run.total.income(penalty, self.choices.prices.unused_promise) for run in self.of(case)
        )
        return Charge(resource=paid.resource / HOUR, qos=paid.qos)

    def break_even(self, penalty: float) -> BreakEven:
        """Return the price of QoS at which EASY and the chosen scheduler earn the same."""
        choices = self.choices
        return break_even(
            self.charge(choices.easy(), penalty), self.charge(choices.chosen, penalty)
        )

    @cached_property
    def deadline_price(self) -> float:
        """Price of a QoS charge of one core-hour, in the currency of the prices.

        It is as chosen, else the one at which promises cost the centre nothing, where missed
        deadlines cost nothing either.
        """
        prices = self.choices.prices
        if prices.qos_charge is not None:
            return prices.qos_charge
        return (self.break_even(0.0).ratio or 0.0) * prices.rate

    def income(self, case: AdviceCase) -> float:
        """Return what all jobs of a case pay over all windows, less penalties, in the currency of
        the prices.
        """
        prices = self.choices.prices
        paid = self.charge(case, prices.penalty)
        return prices.rate * paid.resource + self.deadline_price * paid.qos

    @cached_property
    def promises(self) -> list[EarliestPromise]:
        """Return the earliest end that could be promised to each job, in all windows."""
        return [each for run in self.of(self.choices.chosen) for each in run.promises]


def _share_of(count: str) -> Measure:
    """Return a function that computes the percentage of the requested deadlines that a count of a
    run (``promised``, ``later``, ``failed``, ``refused``) makes up.
    """
    return lambda run: _percent(getattr(run.counts, count), run.counts.jobs)


promised, later, failed, refused = map(_share_of, ("promised", "later", "failed", "refused"))
"""Shares (%) of the deadlines asked for: those that were promised, those for which a later one was
promised and taken, those whose promise was broken or that were missed without one, and those that
were refused."""


def refused_work(run: AdviceRun) -> float | None:
    """Return the core-hours of the jobs whose deadlines were refused, in % of those of all jobs."""
    return _percent(run.counts.refused_work, run.work)


def promised_work(run: AdviceRun) -> float | None:
    """Return the core-hours of the jobs whose deadlines were not refused, in % of those of all
    jobs.
    """
    lost = refused_work(run)
    return None if lost is None else 100 - lost


def utilization(run: AdviceRun) -> float | None:
    """Return the utilization (%) of the machine from the first to the last submission."""
    used: float | None = run.metrics.utilization_during_submissions
    return used


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


@takes(
    trace=PATH | one_of(Conversion, words="a trace that was read"),
    choices=one_of(AdviceChoices, words="AdviceChoices"),
    processors=WHOLE.optional,
    time_zone=TEXT.optional,
    name=TEXT,
    what_if=one_of(WhatIf, words="a WhatIf").optional,
    workers=WORKERS,
    on_progress=CALLABLE.optional,
)
def advise(
    trace: str | Path | Conversion,
    choices: AdviceChoices = AdviceChoices(),  # noqa: B008 - it is frozen
    *,
    processors: int | None = None,
    time_zone: str | None = None,
    name: str = "",
    what_if: WhatIf | None = None,
    workers: Workers = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Simulate deadline schedulers and EASY on windows of a trace, to learn which deadlines could
    have been promised to its jobs and at what price.

    Parameters
    ----------
    trace
        A file that :func:`~qops_batsim.traces.reading.read_trace` reads, or what it returned.
    choices
        Schedulers, loads, deadlines and windows to simulate.
    processors
        Size of the machine, if the file does not have it.
    time_zone
        The site's time zone (``Europe/Stockholm``), if the file does not have it.
    name
        Name of the partition that the trace is of.
    what_if
        Changes of the trace, on the same windows; logged waits are not compared then.
    workers, on_progress
        See :func:`~qops_batsim.experiments.pool.run_cases`.

    Returns
    -------
    Advice
        The windows, the runs of each case on each window, and what follows from them.

    Raises
    ------
    InputError
        If the trace cannot be read, or has no job that fits the machine.

    Examples
    --------
    >>> from qops_batsim.advice.advise import AdviceChoices
    >>> found = advise("tiny_8", AdviceChoices(loads=(1.0,)))
    >>> len(found.runs) == len(found.windows) * len(found.choices.cases())
    True
    """
    choices.check()
    watched_scheduler(choices.scheduler.scheduler, choices.scheduler.settings, EarliestPromises())
    for scheduler in choices.compared:
        scheduler.make()

    if not isinstance(trace, Conversion):
        trace = read_trace(trace, processors=processors, time_zone=time_zone)
    refuse_amounts(trace.workload, "advise")
    prepared = prepare(trace.workload)
    count = len(prepared.workload.jobs)
    windows = choose_windows(count, choices.windows, choices.window_jobs, is_part=bool(name))
    windows = sized_windows(windows, prepared.workload, trace.sizes)

    cases = [
        msgspec.structs.replace(case, window=number)
        for number in range(len(windows))
        for case in choices.cases()
    ]
    work = TraceRuns(prepared.workload, windows, what_if or WhatIf(), choices.prices)
    runs = run_cases(work, cases, workers=workers, group_by=shared_work, on_progress=on_progress)
    advice = Advice(choices, trace, windows, prepared, runs, name=name, what_if=what_if)
    if what_if is None:
        advice = replace(advice, fit=_fit(advice, workers, on_progress))
    return advice


def _fit(
    advice: Advice, workers: Workers, on_progress: Callable[[int, int], None] | None
) -> ModelFit:
    """Compare simulated waits under the site's own scheduler with the waits in the log."""
    choices, workload = advice.choices, advice.prepared.workload
    categories = choices.prices.categories
    columns = workload.columns

    # The jobs of the trace that are simulated: not all of its jobs are usable.
    places = {job_id: place for place, job_id in enumerate(advice.trace.workload.columns.ids)}
    logged = advice.trace.records["wait_time"][[places[job_id] for job_id in columns.ids]]
    order = np.argsort(columns.submission_times, kind="stable")
    rows = np.concatenate([order[each.skip : each.skip + each.jobs] for each in advice.windows])

    simulated: dict[str, list[float]] = {}
    for run in advice.of(choices.easy()):
        for label, waits in run.waits.items():
            simulated.setdefault(label, []).extend(waits)
    by_easy = model_fit(logged[rows], columns.processors[rows], simulated, categories)
    given = choices.by_scheduler
    if not by_easy.is_known or (by_easy.fits and given is None):
        return by_easy

    candidates = [] if given is None else [given]
    of_site = site_fit(
        workload, logged, categories, candidates, workers=workers, on_progress=on_progress
    )
    if given is not None or (of_site.is_known and of_site.fits):
        return of_site
    return msgspec.structs.replace(of_site, classes=by_easy.classes, scheduler=by_easy.scheduler)
