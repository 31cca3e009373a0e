"""Results with dates that cannot be, and workloads with misspelt fields.

A run is made, and its ``_jobs.csv`` then says something impossible of one job: every reader
refuses that in one line that names file, row and column, ``verify`` lists it, and what is only
rounded is read. Of a job whose field is misspelt a reader tells, or refuses it if the field must
be there.
"""

from __future__ import annotations

import csv
import io
import json
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from commands import call

from qops_batsim import InputError, metrics, read_run, read_workload, run, verify
from qops_batsim.advice.explain import explain_from_files
from qops_batsim.job_fields import FIELDS
from support import random_simulations

if TYPE_CHECKING:
    from harness import Tally

COMMANDS = (
    ["metrics", "run"],
    ["plot", "gantt", "run", "-o", "o.svg"],
    ["plot", "utilization", "run", "-o", "o.svg"],
    ["plot", "occupation", "run", "-o", "o.svg"],
    ["diff", "run", "good"],
    ["diff", "good", "run"],
    ["explain", "run", "1"],
)
"""Commands that read a run; one is drawn for each case."""

Cells = dict[str, str]


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Make a run, spoil its dates in several ways, and misspell fields of its workload."""
    rng = random.Random(seed)
    style = random_simulations.Style(True, False, True, True, False)
    made = random_simulations.workload(rng, 8, 14, style)
    path = folder / "w.json"
    path.write_text(json.dumps(made))
    scheduler = rng.choice(["easy", "fcfs", "conservative", "qops"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        good = run(scheduler, path, out=folder / "good")
    text = (folder / "good_jobs.csv").read_text()
    for _ in range(8):
        _spoil(rng, folder, text, tally)
    _round(rng, folder, text, tally)
    if good.violations:
        tally.fail("a run is not verified", str(good.violations[0]))
    for _ in range(4):
        _misspell(rng, folder, made, tally)


def _rows(text: str) -> list[Cells]:
    return list(csv.DictReader(io.StringIO(text)))


def _write(folder: Path, rows: list[Cells]) -> None:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    (folder / "run_jobs.csv").write_text(stream.getvalue())


def _dated(row: Cells, submission: float, start: float, finish: float) -> None:
    """Give a row these dates, and the durations that follow from them."""
    dates = {"submission_time": submission, "starting_time": start, "finish_time": finish}
    dates |= {"execution_time": finish - start, "waiting_time": start - submission}
    dates |= {"turnaround_time": finish - submission}
    dates["stretch"] = (finish - submission) / (finish - start) if finish != start else 1.0
    row.update({name: f"{value:.6f}" for name, value in dates.items()})


def _spoil(rng: random.Random, folder: Path, text: str, tally: Tally) -> None:
    rows = _rows(text)
    ran = [place for place, row in enumerate(rows) if row["final_state"] != "REJECTED"]
    if not ran:
        return
    place = rng.choice(ran)
    row, by = rows[place], rng.choice([1e-4, 0.5, 10, 1e6])
    submission, start, finish = (
        float(row[name]) for name in ("submission_time", "starting_time", "finish_time")
    )
    kinds: dict[str, Callable[[], Any]] = {
        "starting_time": lambda: _dated(row, start + by, start, max(finish, start) + by),
        "finish_time": lambda: _dated(row, submission, start, start - by),
        "submission_time": lambda: _dated(row, start + by, start, finish + 2 * by),
        "date from 0 on": lambda: _dated(row, -2 * by - 1, -by, finish),
        "execution_time": lambda: row.update(execution_time=f"{-by - 100}"),
        "waiting_time": lambda: row.update(waiting_time=f"{-by - finish * 1e-4}"),
        "turnaround_time": lambda: row.update(turnaround_time=f"{-by - finish * 1e-4}"),
        "a number": lambda: row.update({rng.choice(["starting_time", "finish_time"]): "nan"}),
        "number up to": lambda: row.update({rng.choice(["starting_time", "finish_time"]): "inf"}),
        "requested_number_of_resources": lambda: row.update(requested_number_of_resources="9999"),
    }
    name = rng.choice(list(kinds))
    kinds[name]()
    _write(folder, rows)
    (folder / "run_schedule.csv").write_bytes((folder / "good_schedule.csv").read_bytes())
    tally.count("impossible dates")
    prefix = str(folder / "run")
    for read in (read_run, metrics, lambda each: explain_from_files(each, row["job_id"])):
        try:
            read(prefix)
        except InputError as error:
            said = str(error)
            if name not in said or "run_jobs.csv" not in said or f"row {place + 1}" not in said:
                tally.fail(f"{name}: not named", f"row {place + 1}: {said}")
        else:
            tally.fail(f"{name}: read without a word", f"{row}")
    try:
        listed = verify(prefix)
    except InputError:
        listed = ["refused"]  # type: ignore[list-item]
    if not listed and name != "requested_number_of_resources":
        tally.fail(f"{name}: verify says nothing", f"{row}")
    words = [each if each not in ("run", "good") else str(folder / each) for each in
             rng.choice(COMMANDS)]  # fmt: skip
    ended = call(words)
    if ended.code != 2 or ended.errors.count("error:") != 1 or (folder / "o.svg").exists():
        tally.fail(f"{words[0]}: takes what cannot be", f"{words} {ended}")


def _round(rng: random.Random, folder: Path, text: str, tally: Tally) -> None:
    """Dates that are off by a rounding are read as they are."""
    rows = _rows(text)
    for row in rows:
        if row["final_state"] != "REJECTED":
            name = rng.choice(["starting_time", "waiting_time", "turnaround_time"])
            row[name] = f"{float(row[name]) + rng.choice([-1e-6, 0, 1e-6]):.6f}"
    _write(folder, rows)
    tally.count("rounded dates")
    if any(float(row["starting_time"] or 0) < 0 for row in rows):
        return
    metrics(str(folder / "run"))


def _misspell(rng: random.Random, folder: Path, made: dict[str, Any], tally: Tally) -> None:
    """Misspell a standard field of one job by a letter."""
    jobs = [dict(each) for each in made["jobs"]]
    job = rng.choice(jobs)
    name = rng.choice([each for each in FIELDS if each in job and len(each) > 3])
    place = rng.randrange(len(name) - 1)
    swapped = name[:place] + name[place + 1] + name[place] + name[place + 2 :]
    wrong = rng.choice([name[:place] + name[place + 1 :], f"{name}s", name.upper(), swapped])
    if wrong == name:
        return
    job[wrong] = job.pop(name)
    path = folder / "misspelt.json"
    path.write_text(json.dumps(made | {"jobs": jobs}))
    tally.count("misspelt fields")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            read_workload(path)
        except InputError as error:
            said = [str(error)]
        else:
            said = [str(each.message) for each in told]
    if not any(repr(wrong) in each and repr(name) in each for each in said):
        tally.fail(f"{name}: {wrong} is not told", f"{said}")
