"""``qops-batsim workload from-sacct``, ``from-pbs``, ``from-csv``: a centre's own accounting."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from qops_batsim.cli.console import say
from qops_batsim.cli.inputs import duration, refuse_same_file
from qops_batsim.cli.options import WorkloadOut, manual, with_options
from qops_batsim.cli.workload_logs import converted, of_conversion, write_converted
from qops_batsim.errors import InputError, shown

if TYPE_CHECKING:
    from qops_batsim.workload.accounting.reservations import Reservation
    from qops_batsim.workload.accounting.rows import Choices
    from qops_batsim.workload.accounting.site import CsvForm
    from qops_batsim.workload.conversion import Conversion

_about = manual(
    """
    file: Output of sacct --parsable2, --parsable or --json, plain or .gz; /dev/stdin reads a pipe.
    records: Accounting files of PBS or Torque, joined in the order of their days, plain or .gz.
    table: A table with a header (CSV), plain or .gz, or in Parquet.
    any: Log of any format: sacct, PBS, SWF, or a table of a published log; - for standard input.
    --profile NAME: What the columns of a published log are: eagle, kestrel, frontier-jobs, pm100,
        f-data or alibaba-gpu-2023. Default: the one whose columns the table has.
    --processors N: Size of the machine. Default: the most in use at once by the dates of the
        jobs that are taken.
    --by cores|nodes|gpus|binding: Unit in which jobs and the machine are counted; binding: cores,
        of which a job that takes GPUs has those that belong to them.
    --partition NAME: Take the jobs of this partition, of PBS: queue (repeatable).
    --qos NAME: Take the jobs of this QOS (repeatable).
    --account NAME: Take the jobs of this account (repeatable).
    --reservation NAME: Take the jobs inside this reservation only (repeatable); all: every job.
        Default: none of those inside one.
    --nodes FILE: Nodes of the partitions: output of scontrol show node, or of sinfo with PARTITION,
        CPUS and GRES. Default: the most in use at once.
    --reservations FILE: Write the reservations of this file as maintenance windows, for run
        --events, to OUT_events.txt: output of scontrol or sacctmgr show reservation.
    --notice TIME: Announce each window so long before it begins (6h). Default: when the first job
        is submitted.
    --states NAME,...: Take jobs that ended so. Default: all that ran and ended (completed,
        failed, timeout, node_fail, out_of_memory, preempted, deadline, boot_fail, requeued, and
        cancelled while they ran).
    --state-name WORD=STATE: What a word for a state means, where it is not Slurm's own
        (repeatable).
    --restarts last|each: Of several runs of one job take the last, or each as a job of its own
        (4711, 4711r1, ...).
    --waits-from submit|eligible: Date from which a job waits: its submission, or when its
        dependencies and begin date let it.
    --time-zone NAME: Time zone of the site (Europe/Stockholm), in which dates without UTC
        offset are. Default: UTC.
    --date-format FORM: How dates are written, as for strftime ('%d.%m.%Y %H:%M'). Default: ISO
        8601, or seconds since 1970.
    --map NAME=COLUMN,...: Columns of the table: id, submit, processors (or nodes, gpus), and
        run_time, or start and end; if there are any, eligible, suspended, walltime, state, user,
        group, queue, qos, reservation, requeue, and memory, power and energy, which jobs keep as
        fields.
    --unit NAME=UNIT: Unit of plain numbers (repeatable): of run_time, suspended and walltime s,
        min, h or d, of memory MB, GB, KB or B, of energy J or kWh, of processors milli. Default:
        s, MB, J.
    --delimiter LETTER: What separates cells. Default: the one that the header has.
    """
)
Qos = Annotated[list[str] | None, _about("--qos")]
Accounts = Annotated[list[str] | None, _about("--account")]
Reservations = Annotated[list[str] | None, _about("--reservation")]
NodesFile = Annotated[Path | None, _about("--nodes")]
ReservationsFile = Annotated[Path | None, _about("--reservations")]
Notice = Annotated[str | None, _about("--notice")]
StateNames = Annotated[list[str] | None, _about("--state-name")]
WaitsFrom = Annotated[str, _about("--waits-from")]
DateFormat = Annotated[str | None, _about("--date-format")]


def _of_accounting(
    processors: Annotated[int | None, _about("--processors")] = None,
    by: Annotated[str, _about("--by")] = "cores",
    partition: Annotated[list[str] | None, _about("--partition")] = None,
    qos: Qos = None,
    account: Accounts = None,
    reservation: Reservations = None,
    nodes: NodesFile = None,
    states: Annotated[str | None, _about("--states")] = None,
    restarts: Annotated[str, _about("--restarts")] = "last",
    time_zone: Annotated[str | None, _about("--time-zone")] = None,
) -> None:
    """Have the options that all commands of this file share."""


def _accounting(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with these options, and those of a conversion behind them."""
    return with_options(_of_accounting)(with_options(of_conversion)(command))


@_accounting
def from_sacct(
    file: Annotated[Path, _about("file")],
    out: WorkloadOut,
    state_name: StateNames = None,
    waits_from: WaitsFrom = "submit",
    date_format: DateFormat = None,
    reservations: ReservationsFile = None,
    notice: Notice = None,
    **given: Any,
) -> None:
    """Convert Slurm's accounting to a Batsim workload of `delay` jobs.

    Jobs keep their ids (4711, the task 4711_3 of an array), and the names of user, account,
    partition and QOS. Steps are left out, and the components of a heterogeneous job become one
    job. What was left out and why is told in numbers. docs/workloads.md has more.

    Examples:

    \b
        sacct -aDP -S 2024-03-01 -o JobID,User,Account,Partition,QOS \\
          -o Reservation,State,Submit,Start,End,ElapsedRaw,AllocCPUS \\
          -o AllocNodes,ReqTRES,AllocTRES,NodeList,Timelimit > mar.txt
        qops-batsim workload from-sacct mar.txt march.json \\
          --time-zone Europe/Stockholm
        qops-batsim workload from-sacct march.txt.gz nodes.json --by nodes \\
          --processors 60
        qops-batsim workload from-sacct march.json.gz ok.json.gz \\
          --states completed,timeout
        sacctmgr -P show reservation start=2024-03-01 end=2024-04-01 \\
          format=Name,TRES,Start,End,NodeNames,Flags > windows.txt
        qops-batsim workload from-sacct mar.txt march.json \\
          --reservations windows.txt --notice 3d
    """
    further = {"state_name": state_name, "submission": waits_from, "date_format": date_format}
    windows = {"windows": reservations, "notice": notice}
    _convert("sacct", file, out, None, given | further | windows)


@_accounting
def from_pbs(records: Annotated[Path, _about("records")], out: WorkloadOut, **given: Any) -> None:
    """Convert the accounting of PBS or Torque to a Batsim workload of `delay` jobs.

    Jobs keep their ids, and the names of user, account (else group) and queue.

    Examples:

    \b
        cat server_priv/accounting/202403* > march.pbs
        qops-batsim workload from-pbs march.pbs march.json \\
          --time-zone Europe/Paris
    """
    _convert("pbs", records, out, None, given)


@_accounting
def from_csv(
    table: Annotated[Path, _about("table")],
    out: WorkloadOut,
    columns: Annotated[list[str] | None, _about("--map")] = None,
    profile: Annotated[str | None, _about("--profile")] = None,
    unit: Annotated[list[str] | None, _about("--unit")] = None,
    delimiter: Annotated[str, _about("--delimiter")] = "",
    state_name: StateNames = None,
    waits_from: WaitsFrom = "submit",
    date_format: DateFormat = None,
    **given: Any,
) -> None:
    """Convert a table of jobs, a row each, to a Batsim workload of `delay` jobs.

    Examples:

    \b
        qops-batsim workload from-csv jobs.csv jobs.json \\
          --map id=job,submit=created,start=started,end=finished,processors=cores
        qops-batsim workload from-csv jobs.csv jobs.json \\
          --map id=job,submit=created,run_time=minutes,processors=cores,state=status \\
          --unit run_time=min --state-name ok=COMPLETED \\
          --date-format '%d.%m.%Y %H:%M'
    """
    from qops_batsim.workload.accounting import site

    if columns and profile:
        raise InputError(f"--map and --profile {profile} are both given; one is expected")
    units = _pairs(unit, "--unit", "run_time=min")
    form = None if profile is None else site.profile(profile)
    if columns:
        mapping = _pairs([each for text in columns for each in text.split(",")], "--map", "id=job")
        form = site.CsvForm(mapping, units, delimiter)
    elif units or delimiter:
        raise InputError("--unit and --delimiter are of use with --map only; it is expected")
    further = {"state_name": state_name, "submission": waits_from, "date_format": date_format}
    _convert("csv", table, out, form, given | further)


@_accounting
def from_any(
    file: Annotated[Path, _about("any")],
    out: WorkloadOut,
    waits_from: WaitsFrom = "submit",
    reservations: ReservationsFile = None,
    notice: Notice = None,
    **given: Any,
) -> None:
    """Convert a log of any format to a Batsim workload of `delay` jobs; its content tells which.

    `from-sacct`, `from-pbs`, `from-csv` and `from-swf` have the options of one format.

    Examples:

    \b
        qops-batsim workload from eagle_data.parquet eagle.json --first 5000
        sacct -aDP -S 2024-03-01 -o ALL | qops-batsim workload from - march.json
    """
    _convert(
        "",
        Path("/dev/stdin") if str(file) == "-" else file,
        out,
        None,
        given | {"submission": waits_from, "windows": reservations, "notice": notice},
    )


def _pairs(texts: Iterable[str] | None, option: str, example: str) -> dict[str, str]:
    """Return the pairs that an option gives."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{option} is {shown(text)}; such as {example} is expected")
        if name in pairs:
            raise InputError(f"{option} gives {name} twice; once is expected")
        pairs[name] = value
    return pairs


SELECTION = ("partition", "qos", "account", "reservation", "nodes")


def selection(
    partition: list[str] | None,
    qos: list[str] | None,
    account: list[str] | None,
    reservation: list[str] | None,
    nodes: Path | None,
) -> dict[str, Any]:
    """Return the choices of jobs and sizes that the options of several commands make."""
    chosen: dict[str, Any] = {
        "partitions": partition or (),
        "qos": qos or (),
        "accounts": account or (),
        "reservations": reservation or (),
    }
    if nodes is not None:
        from qops_batsim.workload.accounting.nodes import read_nodes

        chosen["nodes"] = read_nodes(nodes)
    return chosen


def _convert(kind: str, path: Path, out: Path, form: CsvForm | None, given: dict[str, Any]) -> None:
    """Read, convert and write; print what was read, left out and written."""
    from qops_batsim.files import write_text
    from qops_batsim.garbage import without_garbage_collection
    from qops_batsim.workload.accounting.reservations import read_reservations
    from qops_batsim.workload.accounting.rows import Choices
    from qops_batsim.workload.traces import read_accounting

    refuse_same_file(path, out, "accounting")
    chosen = selection(**{name: given[name] for name in SELECTION})
    chosen |= {name: given[name] for name in ("by", "restarts", "time_zone")}
    chosen |= {name: given[name] for name in ("submission", "date_format") if name in given}
    if given["states"] is not None:
        chosen["states"] = [each.strip().upper() for each in given["states"].split(",")]
    own = _pairs(given.get("state_name"), "--state-name", "fertig=COMPLETED")
    choices = Choices(state_names={word: name.upper() for word, name in own.items()}, **chosen)
    listed, notice = given.get("windows"), given.get("notice")
    if notice is not None and listed is None:
        raise InputError("--notice is given without --reservations; both are expected")
    ahead = math.inf if notice is None else duration(notice, "--notice")
    reservations = None if listed is None else read_reservations(listed, choices)
    events = out.with_name(f"{out.name.removesuffix('.gz').removesuffix('.json')}_events.txt")
    if listed is not None:
        refuse_same_file(listed, events, "list of reservations")
    with without_garbage_collection():
        log = read_accounting(path, choices, kind, form)
        conversion = converted(log, given, processors=given["processors"])
        told = None
        if reservations is not None:
            text, told = _events_of(reservations, conversion, choices, ahead)
            write_text(events, text)
        write_converted(conversion, path, out)
    if told is not None:
        say(f"{events}: {told}; `qops-batsim run SCHEDULER -w {out} --events {events}` has them")


def _events_of(
    reservations: Sequence[Reservation], conversion: Conversion, choices: Choices, ahead: float
) -> tuple[str, str]:
    """Return the events of the windows of reservations, announced so long ahead, and a report."""
    from qops_batsim.platform.hostset import HostSet
    from qops_batsim.workload.accounting.reservations import windows_of
    from qops_batsim.workload.model import plain_number

    windows, left_out = windows_of(reservations, conversion, choices)
    first, lines = conversion.workload.jobs[0].submission_time, []
    for each in windows:
        dates = {"start": each.start, "end": each.end, "every": each.every, "until": each.until}
        event = {"timestamp": plain_number(max(first, each.start - ahead)), "type": "maintenance"}
        event |= {"resources": str(HostSet(each.hosts)), "reservation": each.name}
        event |= {name: plain_number(date) for name, date in dates.items() if date is not None}
        lines.append(json.dumps(event) + "\n")
    without = "".join(f", {number} {reason}" for reason, number in left_out.items())
    told = f"{len(windows)} maintenance windows of {len(reservations)} reservations"
    return "".join(lines), f"{told}{' (not' * bool(without)}{without[1:]}{')' * bool(without)}"
