"""What the simulations of Islam et al. (2003) say, as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from qops_batsim.experiments.intervals import Interval, mean_interval, paired_difference
from qops_batsim.papers.islam2003.cases import (
    ADMISSION,
    REFERENCES,
    RULES,
    Reading,
    Source,
    case_of,
    scenario,
)
from qops_batsim.papers.islam2003.numbers import FIGURES
from qops_batsim.papers.islam2003.runs import Curve, Results

METRICS = (
    "unadmitted_jobs",
    "unadmitted_work",
    "unadmitted_deadline_jobs",
    "unadmitted_deadline_work",
    "utilization",
    "response_time",
    "slowdown",
)


def all_values(results: Results) -> dict[str, Any]:
    """Return what was run and what each figure shows; its numbers are in the figures."""
    return {
        "study": results.study,
        "shown": {str(each.number): msgspec.structs.asdict(each) for each in FIGURES},
        "rows": list(rows(results)),
        "readings": list(readings(results)),
        "windows": list(windows(results)),
        "packed": list(packed(results)),
    }


def packed(results: Results) -> Iterator[dict[str, Any]]:
    """Yield what each scheduler admits to packed schedules (%), by laxity."""
    for laxity in results.study.laxities:
        found = {name: mean_interval(results.admitted(name, laxity)) for name in ADMISSION}
        yield {"laxity": laxity, **found}


def rows(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the numbers of every scheduler by trace, setting, rule and load, each once."""
    seen = set()
    for shown in FIGURES:
        for setting in shown.settings:
            for rule in RULES if shown.mixed else ("run-time",):
                key = shown.log, shown.method, setting, rule
                if shown.kind in ("relaxation",) or key in seen:
                    continue
                seen.add(key)
                for load in results.study.loads:
                    for name in (*ADMISSION, *REFERENCES):
                        curve = Curve(results, shown.log, shown.method, setting, name, rule)
                        yield {
                            "log": shown.log,
                            "method": shown.method,
                            "stringency": setting[0],
                            "share": setting[1],
                            "rule": rule,
                            "load": load,
                            "scheduler": name,
                            **{each: _interval(curve.values(load, each)) for each in METRICS},
                        }


def readings(results: Results) -> Iterator[dict[str, Any]]:
    """Yield what each reading refuses, and how that differs from MSB with its defaults."""
    study = results.study
    for source in study.reading_sources:
        for load in study.reading_loads:
            for reading in study.readings:
                yield _compared(results, source, load, reading, study.seeds)


def windows(results: Results) -> Iterator[dict[str, Any]]:
    """Yield what schedulers refuse on other windows of the logs."""
    study = results.study
    order = (("order", "earliest_deadline"),)
    compared = (
        *(Reading(name=name, scheduler=name) for name in ADMISSION),
        Reading(name="qops, order=earliest_deadline", scheduler="qops", settings=order),
    )
    for source in study.windows:
        for load in study.window_loads:
            for reading in compared:
                yield _compared(results, source, load, reading, study.window_seeds)


def _compared(
    results: Results, source: Source, load: float, reading: Reading, seeds: tuple[int, ...]
) -> dict[str, Any]:
    at = [scenario(source, "duplication", (0.2, 1.0), load, seed) for seed in seeds]
    own = [case_of(each, reading.scheduler, reading.settings) for each in at]
    msb = [case_of(each, "msb") for each in at]
    found: dict[str, Any] = {"log": source.name, "load": load, "reading": reading.name}
    for metric in ("unadmitted_jobs", "unadmitted_work", "utilization"):
        values = results.of(own, metric)
        found[metric] = mean_interval(values)
        found[f"{metric}_less_msb"] = paired_difference(values, results.of(msb, metric))
    return found


def _interval(values: list[float]) -> Interval | None:
    return mean_interval(values) if values else None
