"""Tables of Islam et al. (2003)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qops_batsim.experiments.intervals import Interval
from qops_batsim.papers.islam2003.cases import ADMISSION, RULES
from qops_batsim.papers.islam2003.figures import title_of
from qops_batsim.papers.islam2003.numbers import FIGURES
from qops_batsim.papers.islam2003.runs import Results
from qops_batsim.papers.islam2003.values import packed, readings, rows, windows
from qops_batsim.papers.report import Column, Columns, Table


def tables(results: Results) -> list[Table]:
    """Return the tables."""
    loads = {results.study.loads[0], results.study.loads[-1]}
    loads |= {load for load in results.study.loads if load in (1.2, 1.4)}
    shown = [row for row in rows(results) if row["load"] in loads]
    return [
        Table(
            "Figures",
            {"number": "figure", "title": "shows", "rules": "artificial deadlines"},
            [
                {
                    "number": str(each.number),
                    "title": title_of(each),
                    "rules": ", ".join(RULES.values()) if each.mixed else "",
                }
                for each in FIGURES
            ],
        ),
        Table(
            "Deadlines for all jobs: mean over seeds and 95 % interval",
            _ALL,
            [row for row in shown if row["share"] == 1],
        ),
        *(
            Table(
                f"Mixed jobs, artificial deadlines of the {source}",
                _MIXED,
                [row for row in shown if row["share"] < 1 and row["rule"] == rule],
                note="Unadmitted are deadline jobs; response time and slowdown are the others'.",
            )
            for rule, source in RULES.items()
        ),
        Table(
            "Packed schedules of section 4.1: admitted jobs (%)",
            {"laxity": Column("r", "{:g}"), **_numbers(**{name: name for name in ADMISSION})},
            list(packed(results)),
        ),
        *_compared(
            "Readings of the paper, S = 0.2, deadlines for all jobs", list(readings(results))
        ),
        *_compared("Other windows of the logs, S = 0.2", list(windows(results))),
    ]


def _compared(title: str, found: Sequence[dict[str, Any]]) -> list[Table]:
    return [Table(title, _COMPARED, found)] if found else []


_WHERE: Columns = {
    "log": "log",
    "method": "method",
    "stringency": Column("S", "{:g}"),
}


def _numbers(**headings: str) -> Columns:
    return {key: Column(heading, Interval.text) for key, heading in headings.items()}


_ALL: Columns = {
    **_WHERE,
    "load": Column("load", "{:g}"),
    "scheduler": "scheduler",
    **_numbers(
        unadmitted_jobs="unadmitted jobs (%)",
        unadmitted_work="unadmitted proc-s (%)",
        utilization="utilization (%)",
    ),
}
_MIXED: Columns = {
    **_WHERE,
    "share": Column("deadline jobs", "{:.0%}"),
    "load": Column("load", "{:g}"),
    "scheduler": "scheduler",
    **_numbers(
        unadmitted_deadline_jobs="unadmitted jobs (%)",
        unadmitted_deadline_work="unadmitted proc-s (%)",
        utilization="utilization (%)",
        slowdown="slowdown",
    ),
    "response_time": Column("response (h)", lambda value: value.text(1 / 3600)),
}
_COMPARED: Columns = {
    "log": "log",
    "load": Column("load", "{:g}"),
    "reading": "reading",
    **_numbers(
        unadmitted_jobs="unadmitted jobs (%)",
        unadmitted_jobs_less_msb="less MSB",
        unadmitted_work="unadmitted proc-s (%)",
        unadmitted_work_less_msb="less MSB",
        utilization="utilization (%)",
    ),
}
