"""Accounting, queues and nodes that are known: read right, or refused by line.

What is written in a format's spelling, with all that is odd there, has to be read as it is. Of what
was damaged besides (cells lost, lines cut, values garbled), what is read has to be right, too.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from known_jobs import ENDED, WRITERS, Written

from qops_batsim.errors import InputError
from qops_batsim.files import Stored
from qops_batsim.queue import Ask, QueueAsker, read_queue
from qops_batsim.slurm.nodes import read_nodes
from qops_batsim.slurm.reservations import reservations_of
from qops_batsim.traces.reading import log_in
from qops_batsim.workload.accounting import Choices
from qops_batsim.workload.accounting.site import CsvForm

if TYPE_CHECKING:
    from harness import Tally

AT_ONCE = 50
"""Inputs of a case."""

_PLACES = (": line ", ": jobs[", ": is no", "no column", "names no cluster")
"""What an error says of where something is wrong."""
_REFUSED = ("scontrol_jobs", "reservations")
"""Formats of which some are refused for their dates."""

_GARBAGE = ("?", "x7", "--", "2024-13-45T99:99:99", "9" * 30, "1e400", "½", "7 8")
_TEXTS = {
    *(
        "JobName",
        "Comment",
        "Cluster",
        "machine",
        "cluster",
        "SubmitLine",
        "WorkDir",
        "User",
        "Partition",
        "NodeList",
        "ReqTRES",
    ),
    *("user", "comment", "name", "user_name", "partition", "steps", "note", "who", "job", "tres"),
}
"""Names, of which nobody can tell whether they are right, and what is not read."""


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Write, damage some, read, and compare."""
    for index in range(AT_ONCE):
        # Each by itself: `one(random.Random("seed/index"))` makes it again.
        rng = random.Random(f"{seed}/{index}")
        name = rng.choices(list(WRITERS), (8, 3, 4, 4, 3, 2, 2, 2, 2))[0]
        written = WRITERS[name](rng)
        damaged = name not in ("scontrol", "squeue_text", *_REFUSED) and rng.random() < 0.4
        text, damage = _damaged(written, name, rng) if damaged else (written.text, "")
        tally.count(name)
        try:
            wrong = _compare(name, written, text, folder)
        except InputError as error:
            told = str(error)
            if name in _REFUSED and (refused := written.further[1]):
                if f": {refused} is " not in told or "SLURM_TIME_FORMAT" not in told:
                    tally.fail(f"{name}: refused without the field", f"{text}\n{told}")
                tally.count("refused for a date")
                continue
            # Of odd texts nobody can tell whether what looks as a row is one.
            if not damage and written.is_odd:
                tally.count("refused for a text")
            elif not damage:
                tally.fail(f"{name}: refused", f"{text}\n{seed}/{index}: {told}")
            elif not any(each in told for each in _PLACES):
                tally.fail(f"{name}: refused without a place", f"{seed}/{index}: {told}\n{text}")
            tally.count("refused")
            continue
        if wrong:
            kind = f"{name}: wrong in silence{' after ' + damage if damage else ''}"
            tally.fail(kind, f"{text}\n{seed}/{index}: {wrong}")
        tally.count("right")


def _damaged(written: Written, name: str, rng: random.Random) -> tuple[str, str]:
    """Return the text without a cell, cut, or with a value that is none."""
    text = written.text
    if name in ("sacct_json", "squeue"):
        data = json.loads(text)
        job = rng.choice(data["jobs"])
        parts = [
            each
            for key, each in job.items()
            if isinstance(each, dict) and each and key not in _TEXTS
        ]
        inside: Any = rng.choice([job, *parts])
        inside[rng.choice([key for key in inside if key not in _TEXTS])] = rng.choice(_GARBAGE)
        return json.dumps(data), "a value garbled"
    lines = text.split("\n")
    place = rng.randrange(len(lines) - 1)
    cells = lines[place].split(written.delimiter)
    column = rng.randrange(len(cells))
    what = rng.choice(("a cell lost", "a value garbled", "a line cut", "the file cut"))
    names = lines[0].strip().split(written.delimiter)
    if what == "a cell lost" and (name == "pbs" or (place and len(cells) == len(names))):
        # Without a name, a header is another one; a cell of a text takes the place of one lost.
        del cells[column]
    elif what == "a value garbled" and name == "pbs":
        cells[column] = rng.choice(_GARBAGE)
    elif what == "a value garbled":
        # Of a name nobody can tell whether it is right.
        known = place and len(cells) == len(names) and names[column] not in _TEXTS
        cells[column] = rng.choice(_GARBAGE) if known else cells[column]
    elif what == "a line cut":
        # One cell of a text alone may be the begin of the row below: its text may have line breaks.
        least = 2 if names[0] in _TEXTS else 1
        cells = cells[: max(column, least)]
    lines[place] = written.delimiter.join(cells) or "x"  # Nobody misses an empty line.
    if what == "the file cut":
        kept = lines[place][: rng.randrange(1, len(lines[place]) + 1)] if lines[place] else "x"
        return "\n".join([*lines[:place], kept]), what
    return "\n".join(lines), what


def _compare(name: str, written: Written, text: str, folder: Path) -> str:
    """Return what is wrong in what was read, empty if nothing is."""
    if name in ("squeue", "squeue_text"):
        return _queue(written, text)
    if name == "scontrol":
        path = folder / "nodes.txt"
        path.write_text(text)
        nodes = read_nodes(path)
        sizes = {part: tuple(size.values()) for part, size in nodes.items()}
        found = sizes, {each.node[0]: "+".join(each.why) for each in nodes.away(nodes)}
        return "" if found == written.further else f"{found}; {written.further} is right"
    if name == "scontrol_jobs":
        return _queue(replace(written, further=written.further[0]), text, 1_750_000_000)
    if name == "reservations":
        choices = Choices(time_zone="UTC")
        listed = reservations_of(text, "reservations", choices)
        told = {each.name: (each.start, each.end, bool(each.no_window)) for each in listed}
        right = written.further[0]
        return "" if told == right else f"{told}; {right} is right"
    kind = {"sacct_json": "json", "table": "csv"}.get(name, name)
    form = CsvForm(*written.further) if name == "table" else None
    # Named, or the one that dates have where none is named.
    as_default = len(text) % 2
    zone = {"default_zone" if as_default else "time_zone": written.zone}
    choices = Choices(cluster=written.cluster, **zone)
    log = log_in(Stored(text.encode(), ""), "log", choices, kind, form)
    jobs = written.known.jobs
    if any(each.rule == "no_line_end" for each in log.left_out):
        return ""
    users = log.texts["user"].texts()
    told = sum(each.jobs for each in log.left_out if each.rule == "cut_tasks")
    # The damage may have taken a list's mark of being cut.
    is_whole = text.count("...") == written.text.count("...")
    if told != written.known.cut and is_whole:
        return f"{told} cut lists; {written.known.cut} is right"
    if set(log.ids) != set(jobs):
        return f"jobs {sorted(log.ids)}; {sorted(jobs)} is right"
    for job, record, user in zip(log.ids, log.records, users, strict=True):
        run = jobs[job]
        if written.is_odd and record["submit_time"] < 0:
            continue  # A text took its place; that it has none is told when it is converted.
        submit = log.start.unix_start + record["submit_time"]
        found = (submit, submit + record["wait_time"], record["run_time"], record["requested_time"])
        found += (record["requested_processors"], record["status"], user)
        right = (
            run.submit,
            run.start,
            run.ran,
            run.limit or -1,
            run.cores,
            ENDED[run.state],
            run.user,
        )
        if tuple(
            each if isinstance(each, str) else max(float(each), -1) for each in found
        ) != tuple(each if isinstance(each, str) else float(each or 0) for each in right) and not (
            run.limit is None and found[:3] + found[4:] == right[:3] + right[4:] and found[3] <= 0
        ):
            return f"job {job}: {found}; {right} is right"
    return ""


def _queue(written: Written, text: str, now: float = 1_750_000_000.0) -> str:
    state = read_queue(
        text.encode(), "queue", processors=100_000, written_at=now, time_zone=written.zone
    )
    found = {
        job.id: (job.processors, job.estimate, job.submission, job.start) for job in state.jobs
    }
    # A reason that is not known is told.
    if found != written.further and not state.unsure:
        return f"{found}; {written.further} is right"
    if written.lacks is None or state.unsure:
        return ""
    # So many processors are free that whatever waits for Resources fits.
    is_refused = "Resources" in QueueAsker(state).ask(Ask(processors=1, time=60.0)).reason
    right = is_refused == written.lacks
    return "" if right else f"a quote is refused: {is_refused}; {written.lacks} is right"
