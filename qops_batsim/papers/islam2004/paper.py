"""Islam et al. (2004): what a centre earns from feedback, tolerance, slack and kills.

M. Islam, P. Balaji, P. Sadayappan and D. K. Panda, "Towards provision of quality of
service guarantees in job scheduling", IEEE International Conference on Cluster Computing,
2004: Figures 3 to 11 and the claims of sections 6 to 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.economics.charges import Charge, break_even
from qops_batsim.experiments.intervals import Interval, mean_interval
from qops_batsim.papers.islam2004.cases import Case, Results, Study
from qops_batsim.papers.islam2004.claims import claims
from qops_batsim.papers.islam2004.figures import figures
from qops_batsim.papers.islam2004.runs import SCHEDULER, run_study
from qops_batsim.papers.logs import find_log
from qops_batsim.papers.report import Cell, Claim, Figure, PaperReport, PaperRequest, Table
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.from_swf import convert_swf
from qops_batsim.workload.model import Workload
from qops_batsim.workload.swf import read_swf

LOGS = ("CTC-SP2-1996-rebuilt.swf.gz", "CTC-SP2-1996-3.1-cln.swf.gz")

FULL_JOBS = 5000
QUICK_JOBS = 2000

FULL = Study(
    loads=(1.0, 1.2, 1.3, 1.4, 1.6),
    tolerance_factors=(1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0),
    slack_loads=(1.3, 1.6),
    slack_tolerance_factors=(1.0, 2.0, 4.0, 6.0, 8.0, 10.0),
    slack_factors=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
    kill_load=1.6,
    kill_tolerance_factors=(2.0, 4.0),
    deadline_share=0.2,
    seeds=(1, 2, 3, 4, 5),
)
"""All figures."""

COARSE = Study(
    loads=(1.0, 1.3, 1.6),
    tolerance_factors=(1.0, 2.0, 4.0, 10.0),
    slack_loads=(1.3, 1.6),
    slack_tolerance_factors=(2.0, 4.0, 10.0),
    slack_factors=(1.0, 2.0, 6.0),
    kill_load=1.6,
    kill_tolerance_factors=(2.0, 4.0),
    deadline_share=0.2,
    seeds=(1, 2, 3),
)
"""All figures with few points."""

QUICK = msgspec.structs.replace(COARSE, seeds=(1, 2))
"""The quick part: on the first machine only."""

BATCH_PARTITION, WHOLE_LOG = 430, 338
"""Processors: of the machine's batch partition, and as many as the log tells."""

_METRICS = (
    "accepted_share",
    "accepted_work",
    "resource_charge",
    "qos_charge",
    "bounded_qos_charge",
    "kills",
    "wasted_work",
)


def run(request: PaperRequest) -> PaperReport:
    """Run the experiments; the quick part is one machine, two seeds and a coarse grid.

    Raises
    ------
    InputError
        The log is not at hand, or a file of kept runs cannot be used.
    SimulationError
        A schedule breaks a rule.
    """
    log = read_swf(find_log(request, *LOGS, fetch="ctc-sp2"))
    jobs = QUICK_JOBS if request.quick else FULL_JOBS
    studies = (
        {BATCH_PARTITION: QUICK} if request.quick else {BATCH_PARTITION: FULL, WHOLE_LOG: COARSE}
    )
    parts = []
    for processors, study in studies.items():
        if request.seeds is not None:
            study = msgspec.structs.replace(study, seeds=tuple(range(1, request.seeds + 1)))
        parts.append((convert_swf(log, processors=processors, first=jobs).workload, study))
    return report_on(parts, request)


def report_on(parts: Sequence[tuple[Workload, Study]], request: PaperRequest) -> PaperReport:
    """Run studies on traces, one for each machine, and report.

    Parameters
    ----------
    parts
        Jobs of load 1, of type ``delay``, and what to simulate. Figures and claims of the
        first have the plain names, those of the others end in ``-PROCESSORS``.
    request
        Workers, where to keep runs, progress.
    """
    runs = [sum(len(study.seeds_of(case)) for case in study.cases()) for _, study in parts]
    tables: list[Table] = []
    drawn: list[Figure] = []
    judged: list[Claim] = []
    machines: dict[str, Any] = {}
    for index, (trace, study) in enumerate(parts):

        def on_run(done: int, _: int, before: int = sum(runs[:index])) -> None:
            request.progress(before + done, sum(runs))

        results = run_study(trace, study, workers=request.workers, keep=request.out, on_run=on_run)
        suffix = f"-{trace.processors}" if index else ""
        machine = f", {trace.processors} processors" if len(parts) > 1 else ""
        drawn += figures(results, suffix=suffix, machine=machine)
        judged += claims(results, suffix=suffix)
        tables += [
            _tolerance_table(results, machine),
            _kill_table(results, machine),
            _break_even_table(results, machine),
        ]
        machines[str(trace.processors)] = _numbers(results)
    return PaperReport(
        paper="islam2004",
        quick=request.quick,
        choices=_choices(parts),
        data={"machines": machines},
        tables=tables,
        figures=drawn,
        claims=judged,
    )


def _choices(parts: Sequence[tuple[Workload, Study]]) -> dict[str, str]:
    options = msgspec.to_builtins(make_scheduler(SCHEDULER).options)
    varied = Case(load=1.0, kill_and_restart=True).settings(0)
    fixed = {name: value for name, value in options.items() if name not in varied}
    machines = " and ".join(str(trace.processors) for trace, _ in parts)
    seeds = " and ".join(str(len(study.seeds)) for _, study in parts)
    (trace, study), *_ = parts
    return {
        "jobs": f"the first {len(trace.jobs):,} jobs of {Path(trace.source).name} that fit, on "
        f"{machines} processors; run times are known exactly",
        "load": "duplicates of random jobs, submitted with their originals and with the same "
        "deadline",
        "deadlines": "S = 0.2, from EASY on the jobs of load 1",
        "category slowdowns": "plain slowdowns under EASY at the same load and seed; categories "
        "end at 10 min, 1 h, 8 h and at 1, 8, 32 processors",
        "QoS charge": "category slowdown / slowdown that the admitted deadline grants",
        "random TF": "uniform between 0 and 2 TF for each job",
        "jobs without user deadline": f"{100 * (1 - study.deadline_share):g} % in Figures 10 and "
        "11; artificial deadline max(24 h, 2 x run time), only the resource charge",
        "seeds": f"{seeds}; they choose duplicates, random TF and who has a deadline",
        "scheduler": f"{SCHEDULER} with "
        + ", ".join(f"{name} = {value}" for name, value in fixed.items()),
    }


def _numbers(results: Results) -> dict[str, Any]:
    """Return mean and interval of every number of every case."""
    return {
        "study": results.study,
        "cases": [
            {
                **_parameters(case),
                "metrics": {name: mean_interval(results.values(case, name)) for name in _METRICS},
            }
            for case in results.study.cases()
        ],
    }


def _parameters(case: Case) -> dict[str, Any]:
    return {name: getattr(case, name) for name in case.__struct_fields__}


def _tolerance_table(results: Results, machine: str) -> Table:
    study = results.study
    rows: list[tuple[Cell, ...]] = []
    for load in study.loads:
        for factor in study.tolerance_factors:
            case = Case(load=load, tolerance_factor=factor)
            rows.append(
                (
                    f"{load:g}",
                    f"{factor:g}",
                    _with_interval(results, case, "accepted_share"),
                    _with_interval(results, case, "resource_charge", 1e-6),
                    _with_interval(results, case, "qos_charge", 1e-3),
                )
            )
    return Table(
        title=f"Fixed tolerance{machine}: mean over seeds and 95 % interval",
        columns=(
            "load",
            "TF",
            "accepted jobs (%)",
            "resource charge (10⁶ proc-s)",
            "QoS charge (10³)",
        ),
        rows=tuple(rows),
        note="The resource charge is the accepted work: estimates are exact.",
    )


def _kill_table(results: Results, machine: str) -> Table:
    rows = tuple(
        (
            f"{100 * case.deadline_share:g}",
            f"{case.tolerance_factor:g}",
            f"{case.slack_factor:g}",
            "yes" if case.kill_and_restart else "no",
            _with_interval(results, case, "resource_charge", 1e-6),
            _with_interval(results, case, "qos_charge", 1e-3),
            _mean(results, case, "kills"),
            _mean(results, case, "wasted_work") / 1e6,
        )
        for case in _kill_cases(results.study)
    )
    return Table(
        title=f"Kill-and-restart{machine}, load {results.study.kill_load:g}",
        columns=(
            "deadline jobs (%)",
            "TF",
            "SF",
            "kills allowed",
            "resource charge (10⁶ proc-s)",
            "QoS charge (10³)",
            "kills",
            "wasted work (10⁶ proc-s)",
        ),
        rows=rows,
    )


def _break_even_table(results: Results, machine: str) -> Table:
    study = results.study
    load, slack_load = study.kill_load, study.slack_loads[-1]
    least, top = study.tolerance_factors[0], study.tolerance_factors[-1]
    slack_top, most = study.slack_tolerance_factors[-1], study.slack_factors[-1]
    pairs = [
        (
            f"TF = {top:g}",
            Case(load=load, tolerance_factor=top),
            f"TF = {least:g}",
            Case(load=load, tolerance_factor=least),
        ),
        (
            f"SF = 1 (TF = {slack_top:g})",
            Case(load=slack_load, tolerance_factor=slack_top),
            f"SF = {most:g} (TF = {slack_top:g})",
            Case(load=slack_load, tolerance_factor=slack_top, slack_factor=most),
        ),
    ]
    for share in (1.0, study.deadline_share):
        for factor in study.kill_tolerance_factors:
            plain = Case(load=load, deadline_share=share, tolerance_factor=factor)
            pairs.append(
                (
                    "no kills",
                    plain,
                    f"kills (TF = {factor:g}, SF = 1, {100 * share:g} % deadline jobs)",
                    msgspec.structs.replace(plain, kill_and_restart=True),
                )
            )
    rows: list[tuple[Cell, ...]] = []
    for first_name, first, second_name, second in pairs:
        found = break_even(_mean_charge(results, first), _mean_charge(results, second))
        names = {"first": first_name, "second": second_name, "equal": "equal"}
        rows.append((first_name, second_name, found.ratio, names[found.below], names[found.above]))
    return Table(
        title=f"Who earns more{machine}, load {load:g}: w_r R + w_q Q of mean charges",
        columns=("first", "second", "break-even w_q / w_r", "better below", "better above"),
        rows=tuple(rows),
        note="Without a number, one of both is better, or equal, with any weights.",
    )


def _kill_cases(study: Study) -> list[Case]:
    return [
        Case(
            load=study.kill_load,
            deadline_share=share,
            tolerance_factor=factor,
            slack_factor=slack,
            kill_and_restart=kill,
        )
        for share in (1.0, study.deadline_share)
        for factor in study.kill_tolerance_factors
        for slack in study.slack_factors
        for kill in (False, True)
    ]


def _mean(results: Results, case: Case, metric: str) -> float:
    return mean_interval(results.values(case, metric)).mean


def _mean_charge(results: Results, case: Case) -> Charge:
    return Charge(
        resource=_mean(results, case, "resource_charge"), qos=_mean(results, case, "qos_charge")
    )


def _with_interval(results: Results, case: Case, metric: str, scale: float = 1.0) -> str:
    value: Interval = mean_interval(results.values(case, metric))
    if value.low is None or value.high is None:
        return f"{value.mean * scale:,.2f}"
    return f"{value.mean * scale:,.2f} [{value.low * scale:,.2f}, {value.high * scale:,.2f}]"
