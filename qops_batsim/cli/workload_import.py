"""``qops-batsim workload import``: logs of all formats, including a centre's accounting."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import to_builtins

from qops_batsim.cli.command_inputs import duration, refuse_same_file, selection
from qops_batsim.cli.common_options import (
    Accounts,
    NodesFile,
    Qos,
    Reservations,
    manual,
    with_options,
)
from qops_batsim.cli.console import print_json, print_table, say, warn
from qops_batsim.cli.texts import asked_text, load_text
from qops_batsim.errors import InputError, did_you_mean, require_one_of, shown

if TYPE_CHECKING:
    from qops_batsim.files import Stored
    from qops_batsim.slurm.reservations import Reservation
    from qops_batsim.workload.accounting.choices import Choices
    from qops_batsim.workload.accounting.site import CsvForm
    from qops_batsim.workload.conversion import Conversion, Repairs
    from qops_batsim.workload.log_records import RepairCount
    from qops_batsim.workload.workload_model import Workload

FORMATS = {
    "swf": "a log in the Standard Workload Format",
    "sacct": "the accounting of Slurm (sacct)",
    "pbs": "the accounting of PBS or Torque",
    "csv": "a table",
    "batsim": "a Batsim workload",
}
"""Formats of logs by the name that ``--format`` has for them."""

_about = manual(
    """
    FILE: The log, plain or .gz: SWF, the output of sacct (--parsable2, --parsable, --json), the
        accounting files of PBS or Torque in the order of their days, a table (CSV, Parquet), or a
        Batsim workload of any version; - for standard input.
    OUT: Workload to write (JSON; compressed if named .gz). Without it, only report what is odd.
    [What it is]
    --format NAME: swf, sacct, pbs, csv, batsim, or the published log whose columns a table has:
        eagle, kestrel, frontier-jobs, pm100, f-data, alibaba-gpu-2023. Default: by its content.
    --processors N: Size of the machine. Default: of SWF, the header's MaxProcs, else MaxNodes; else
        the most in use at once by the dates of the jobs that are taken. By amounts: hosts, by
        default those of --nodes, of SWF MaxNodes, or those on which jobs ran.
    --time-zone NAME: The site's time zone (Europe/Stockholm). Default: of SWF, the header's; of
        dates without UTC offset, UTC.
    --as 4|5: Version of Batsim that OUT is for: 4 (3.1 to 4.2), or 5. Default: 4.
    [Which jobs]
    --cluster NAME: Take jobs of this cluster, of PBS: server, where the file has several.
    --partition NAME: Take jobs of this partition, of PBS: queue (repeatable).
    --states NAME,...: Take jobs with these final states. Default: all that ran and ended
        (completed, failed, timeout, node_fail, out_of_memory, preempted, deadline, boot_fail,
        requeued, cancelled).
    --restarts last|each: Take the last of several runs of one job, or each as a job of its own
        (4711, 4711r1, ...). Default: last.
    --from DATE: Take jobs submitted from this date on: an ISO date or date and time in the log's
        time zone, or seconds since the log's start.
    --to DATE: Take jobs submitted before this date.
    --month YYYY-MM: Take jobs submitted in this calendar month of the log's time zone.
    --repair RULE=CHOICE: Repair of jobs that cannot be simulated as they are, see above
        (repeatable).
    --skip N: Leave out N usable jobs.
    --first N: Take N usable jobs.
    [What a job is]
    --by cores|nodes|gpus|binding|amounts: Unit in which jobs and the machine are counted; binding:
        cores, where a job with GPUs has at least the cores that belong to them; amounts: hosts, of
        each of which a job asks for cores, memory and GPUs. Default: cores.
    --waits-from submit|eligible: Date from which a job waits: its submission, or when its
        dependencies and begin date let it. Default: submit.
    --state-name WORD=STATE: Slurm's name of a state that the log calls otherwise (repeatable).
    --date-format FORM: How dates are written, as for strftime ('%d.%m.%Y %H:%M'). Default: ISO
        8601, or seconds since 1970.
    --rebase: Submit the first job at 0. Default: the log's own seconds, so that months of one
        log stay comparable.
    [Tables]
    --map NAME=COLUMN,...: Columns of the table: id, submit, cores (or nodes, gpus), and run_time,
        or start and end; if there are any, eligible, suspended, walltime, state, user, group,
        queue, qos, reservation, requeue, cluster, and memory, power and energy, which jobs keep as
        fields (gpus as gpu_count, memory as memory_mb).
    --unit NAME=UNIT: Unit of plain numbers (repeatable): of run_time, suspended and walltime s,
        min, h or d, of memory MB, GB, KB or B of the whole job, MB/host or MB/core of each host or
        core, of energy J or kWh, of cores milli. Default: s, MB, J.
    --delimiter LETTER: Separator of cells. Default: that of the header.
    [Maintenance]
    --reservations FILE: Write the reservations of this file as maintenance windows, for run
        --events, to OUT_events.txt: output of scontrol or sacctmgr show reservation. Without OUT,
        tell how many become windows, and why others do not.
    --notice TIME: Time between the notice of a window and its begin (6h). Default: when the
        first job is submitted.
    [Report, without OUT]
    --json: Print everything as JSON, with all line numbers.
    --strict: Exit with code 1 when anything is found.
    """
)

_ACCOUNTING = ("sacct", "pbs", "csv")
_DATED = ("sacct", "csv")
_LOGS = ("swf", *_ACCOUNTING)

_FORMATS_OF = {
    **dict.fromkeys(("--partition", "--account", "--qos", "--reservation"), _ACCOUNTING),
    **dict.fromkeys(("--cluster", "--states", "--restarts"), _ACCOUNTING),
    **dict.fromkeys(("--waits-from", "--state-name", "--date-format"), _DATED),
    **dict.fromkeys(("--reservations", "--notice"), _DATED),
    **dict.fromkeys(("--map", "--unit", "--delimiter"), ("csv",)),
    **dict.fromkeys(("--format", "--as", "--json", "--strict"), tuple(FORMATS)),
}
"""Formats that an option is for, if not for all logs."""

_OF_REPORT = ("--json", "--strict")
_OF_WRITING = ("--as", "--notice")

_SWF_REPAIRS = ("no_processors", "duplicate_id", "processors_field")
"""Repairs of faults that only SWF logs have."""

_LINES = 5
"""Most line numbers of a finding that a report shows."""


def _options(
    form: Annotated[str | None, _about("--format")] = None,
    processors: Annotated[int | None, _about("--processors")] = None,
    time_zone: Annotated[str | None, _about("--time-zone")] = None,
    release: Annotated[str | None, _about("--as")] = None,
    partition: Annotated[list[str] | None, _about("--partition")] = None,
    account: Accounts = None,
    cluster: Annotated[str | None, _about("--cluster")] = None,
    qos: Qos = None,
    reservation: Reservations = None,
    states: Annotated[str | None, _about("--states")] = None,
    restarts: Annotated[str | None, _about("--restarts")] = None,
    start: Annotated[str | None, _about("--from")] = None,
    end: Annotated[str | None, _about("--to")] = None,
    month: Annotated[str | None, _about("--month")] = None,
    repair: Annotated[list[str] | None, _about("--repair")] = None,
    skip: Annotated[int | None, _about("--skip")] = None,
    first: Annotated[int | None, _about("--first")] = None,
    by: Annotated[str | None, _about("--by")] = None,
    nodes: NodesFile = None,
    waits_from: Annotated[str | None, _about("--waits-from")] = None,
    state_name: Annotated[list[str] | None, _about("--state-name")] = None,
    date_format: Annotated[str | None, _about("--date-format")] = None,
    rebase: Annotated[bool, _about("--rebase")] = False,
    columns: Annotated[list[str] | None, _about("--map")] = None,
    unit: Annotated[list[str] | None, _about("--unit")] = None,
    delimiter: Annotated[str | None, _about("--delimiter")] = None,
    reservations: Annotated[Path | None, _about("--reservations")] = None,
    notice: Annotated[str | None, _about("--notice")] = None,
    as_json: Annotated[bool, _about("--json")] = False,
    strict: Annotated[bool, _about("--strict")] = False,
) -> None:
    """Declare the options of ``workload import``."""


@with_options(_options)
def import_log(
    context: typer.Context,
    file: Annotated[str, _about("FILE")],
    out: Annotated[Path | None, _about("OUT")] = None,
    **values: Any,
) -> None:
    """Convert a log of a known format to a Batsim workload, or report what is odd in it.

    The format is recognised by the content, and printed. Every repair is reported with the
    number of jobs it concerned, every choice is recorded in the workload. The order is: window
    (`--from`, `--to` or `--month`), repairs, `--skip`, `--first`. docs/workloads.md has more.

    Repairs, the default first:

    \b
        no-processors=drop|clip           clip: 1 processor
        too-wide=drop|clip|keep           clip: all of the machine
        no-run-time=drop|clip|limit       clip: 1 s; limit: as requested
        no-requested-time=keep|clip|drop  clip: walltime = run time
        overrun=keep|clip|drop            clip: run time = requested time
        duplicate-id=drop|renumber        renumber: above all others
        processors-field=requested|allocated

    Examples:

    \b
        # What is odd, and a workload:
        qops-batsim workload import KTH-SP2-1996-2.swf.gz
        qops-batsim workload import KTH-SP2-1996-2.swf.gz kth.json \\
          --processors 100 --repair overrun=clip
        # A centre's own accounting:
        sacct -aDP -S 2024-03-01 -o JobID,User,Account,Partition,QOS \\
          -o Reservation,State,Submit,Start,End,ElapsedRaw,AllocCPUS \\
          -o AllocNodes,ReqTRES,AllocTRES,NodeList,Timelimit > mar.txt
        qops-batsim workload import mar.txt march.json \\
          --time-zone Europe/Stockholm --states completed,timeout
        # A table:
        qops-batsim workload import jobs.csv jobs.json --unit run_time=min \\
          --map id=job,submit=created,run_time=minutes,cores=cores
        # Jobs that share hosts, each of which has cores, memory and GPUs:
        qops-batsim workload import mar.txt march.json --by amounts \\
          --nodes nodes.txt
        # The reservations as maintenance windows, and a workload for Batsim 5:
        qops-batsim workload import mar.txt march.json \\
          --reservations windows.txt --notice 3d
        qops-batsim workload import kth_sp2_1000 kth5.json --as 5
    """
    from qops_batsim.files import read_stored
    from qops_batsim.garbage import without_garbage_collection
    from qops_batsim.shipped import find_input
    from qops_batsim.workload.log_formats import log_format, refuse_others

    names = {each.name: each.opts[0] for each in context.command.params}
    said = {name: value for name, value in values.items() if value is not None and value != []}
    given = {names[name]: value for name, value in said.items() if value is not False}
    path = Path("/dev/stdin") if file == "-" else find_input(file, "workloads")
    release = given.get("--as", "4")
    require_one_of("--as", release, ("4", "5"))
    if out is not None:
        refuse_same_file(path, out, "log")
    with without_garbage_collection():
        stored = read_stored(path, what="a workload log or a Batsim workload")
        found = log_format(stored.content)
        if found in ("batsim", "swf"):
            refuse_others(stored.content, str(path))
        kind, form = _form(given, "sacct" if found == "json" else found)
        _refuse_others(given, kind, file, out)
        if kind == "batsim":
            odd = _convert_workload(stored, str(path), out, release)
        else:
            odd = _convert(stored, path, out, kind, form, given, release)
    if odd and "--strict" in given:
        raise typer.Exit(1)


def _form(given: Mapping[str, Any], found: str) -> tuple[str, CsvForm | None]:
    """Return the log's format, by ``--format`` or else as ``found``, and how to read a table."""
    from qops_batsim.workload.accounting import site

    asked = given.get("--format")
    columns = given.get("--map")
    kind = asked or found
    if asked is not None and asked not in FORMATS:
        require_one_of("--format", asked, (*FORMATS, *site.profiles()))
        if columns:
            raise InputError(
                f"--map and --format {asked}, which names the columns itself, are both given; one "
                "of them is expected"
            )
        return "csv", site.profile(asked)
    units = _pairs(given.get("--unit"), "--unit", "run_time=min")
    if columns:
        # What a site's own table is like, nobody can tell from its content.
        own = kind in ("swf", "sacct") and asked is None
        mapping = _pairs([each for text in columns for each in text.split(",")], "--map", "id=job")
        form = site.CsvForm(mapping, units, given.get("--delimiter", ""))
        return "csv" if own else kind, form
    if units or "--delimiter" in given:
        raise InputError(
            "--unit or --delimiter is given without --map, which tells the columns of a table; "
            "--map is expected"
        )
    return kind, None


def _refuse_others(given: Mapping[str, Any], kind: str, file: str, out: Path | None) -> None:
    """Raise an InputError for options that have no effect on this format or use.

    ``kind`` is the log's format; without ``out`` the command only reports.
    """
    if kind == "swf" and given.get("--by", "amounts") != "amounts":
        raise InputError(
            f"{file}: is {FORMATS[kind]}, whose jobs have processors, and --by is "
            f"{shown(given['--by'])}; amounts is expected, or leave it out"
        )
    if kind == "swf" and "--nodes" in given and "--by" not in given:
        raise InputError(
            f"{file}: is {FORMATS[kind]}, of which --nodes has an effect with --by amounts only; "
            "give both, or leave it out"
        )
    for option in given:
        formats = _FORMATS_OF.get(option, _LOGS)
        if kind not in formats:
            others = " or ".join(FORMATS[each] for each in formats)
            raise InputError(
                f"{file}: is {FORMATS[kind]}, but {option} is for {others} only; leave it out"
            )
        if option in (_OF_WRITING if out is None else _OF_REPORT):
            where = "a workload to write (OUT)" if out is None else "a report, without OUT"
            raise InputError(f"{option} has an effect on {where} only; leave it out")


def _pairs(texts: Iterable[str] | None, option: str, example: str) -> dict[str, str]:
    """Parse the values of a repeatable option ``NAME=VALUE`` to a dict."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{option} is {shown(text)}; NAME=VALUE, as {example}, is expected")
        if name in pairs:
            raise InputError(f"{option} gives {name} twice; each name is expected once")
        pairs[name] = value
    return pairs


def _choices(given: Mapping[str, Any]) -> Choices:
    """Return which rows of accounting are jobs, and how to read cells, from the options."""
    from qops_batsim.workload.accounting.choices import Choices

    names = ("partition", "qos", "account", "reservation", "nodes")
    chosen = selection(*(given.get(f"--{name}") for name in names))
    named = {"by": "--by", "restarts": "--restarts", "submission": "--waits-from"}
    named |= {"time_zone": "--time-zone", "date_format": "--date-format", "cluster": "--cluster"}
    chosen |= {name: given[option] for name, option in named.items() if option in given}
    if "--states" in given:
        chosen["states"] = [each.strip().upper() for each in given["--states"].split(",")]
    own = _pairs(given.get("--state-name"), "--state-name", "fertig=COMPLETED")
    return Choices(state_names={word: name.upper() for word, name in own.items()}, **chosen)


def _repairs(given: Mapping[str, Any], kind: str) -> Repairs:
    from qops_batsim.workload.conversion import CHOICES, Repairs

    chosen = _pairs(given.get("--repair"), "--repair", "overrun=clip")
    rules = {rule.replace("_", "-"): rule for rule in CHOICES}
    for name in chosen:
        if name not in rules:
            raise InputError(f"--repair: there is no rule {name}{did_you_mean(name, rules)}")
        if kind != "swf" and rules[name] in _SWF_REPAIRS:
            raise InputError(
                f"--repair {name} has an effect on {FORMATS['swf']} only; leave it out"
            )
    return Repairs(**{rules[name]: choice for name, choice in chosen.items()})


def _convert(
    stored: Stored,
    path: Path,
    out: Path | None,
    kind: str,
    form: CsvForm | None,
    given: Mapping[str, Any],
    release: str,
) -> bool:
    """Convert a log and write it, or only report on it; return whether anything was odd."""
    from qops_batsim.files import write_text
    from qops_batsim.slurm.reservations import read_reservations
    from qops_batsim.traces.reading import log_in
    from qops_batsim.workload.conversion import Bounds, convert_log

    choices = _choices(given)
    repairs = _repairs(given, kind)
    listed = given.get("--reservations")
    notice = given.get("--notice")
    if notice is not None and listed is None:
        raise InputError(
            "--notice is given without --reservations, the file with the windows; both are expected"
        )
    ahead = math.inf if notice is None else duration(notice, "--notice")
    windows = None if listed is None else read_reservations(listed, choices)
    bounds = Bounds(start=given.get("--from"), end=given.get("--to"), month=given.get("--month"))
    if kind == "swf":
        bounds["time_zone"] = given.get("--time-zone")
    conversion = convert_log(
        log_in(stored, str(path), choices, kind, form),
        processors=given.get("--processors"),
        repairs=repairs,
        skip=given.get("--skip", 0),
        first=given.get("--first"),
        rebase="--rebase" in given,
        **bounds,
    )

    odd = [each for each in conversion.repairs if each.jobs]
    read = f"{path.name}: {conversion.records_read} records of {FORMATS[kind]}"
    events = ""
    counts: dict[str, Any] = {}
    if windows is not None:
        events, counts = _events_of(windows, conversion, choices, ahead)
    if "--json" in given:
        report = {"records": conversion.records_read, "findings": to_builtins(odd)}
        print_json(report | ({"reservations": counts} if counts else {}))
        return bool(odd)

    told = _windows_text(counts) if counts else ""
    losses: list[str] = []
    if out is not None:
        if listed is not None:
            file = out.with_name(f"{out.name.removesuffix('.gz').removesuffix('.json')}_events.txt")
            refuse_same_file(listed, file, "list of reservations")
            write_text(file, events)
            told = f"{file}: {told}; `qops-batsim run SCHEDULER -w {out} --events {file}` has them"
        losses = _write(conversion.workload, out, release)
    _tell(conversion, read, odd, out)
    for line in losses:
        warn(line)
    if told:
        say(told)
    return bool(odd)


def _convert_workload(stored: Stored, source: str, out: Path | None, release: str) -> bool:
    """Write a workload for another version of Batsim; return whether anything is lost.

    Prints what cannot be kept. Without ``out``, prints what Batsim 5 could not keep.
    """
    from qops_batsim.workload.batsim5 import format_batsim5, with_requests
    from qops_batsim.workload.batsim_json import workload_in

    workload = workload_in(stored, source)
    if out is None:
        _, losses = format_batsim5(workload)
    else:
        losses = _write(workload if release == "5" else with_requests(workload), out, release)
    profiles = f"{len(workload.profiles):,} profiles"
    written = f"for batsim{release}" if out else f"{workload.processors:,} processors"
    say(f"{out or source}: {len(workload.jobs):,} jobs, {profiles}, {written}")
    if told := asked_text(workload):
        say(told)
    for line in losses:
        warn(line)
    return bool(losses)


def _write(workload: Workload, out: Path, release: str) -> list[str]:
    """Write a workload for Batsim 4 or 5; return a line for each thing that cannot be kept."""
    from qops_batsim.files import write_text
    from qops_batsim.workload.batsim5 import format_batsim5
    from qops_batsim.workload.batsim_json import write_workload

    if release == "4":
        write_workload(workload, out)
        return []
    text, losses = format_batsim5(workload, directory=out.parent)
    write_text(out, text)
    return losses


def _events_of(
    reservations: Sequence[Reservation], conversion: Conversion, choices: Choices, ahead: float
) -> tuple[str, dict[str, Any]]:
    """Return reservations as lines of maintenance events, and how many there are of these: read,
    windows, and left out by reason.

    Each event comes ``ahead`` seconds before its window begins, but not before the first job.
    """
    from qops_batsim.core.hostset import HostSet
    from qops_batsim.slurm.reservations import windows_of
    from qops_batsim.workload.workload_model import plain_number

    windows, left_out = windows_of(reservations, conversion, choices)
    first = conversion.workload.jobs[0].submission_time
    lines = []
    for window in windows:
        event = {
            "timestamp": plain_number(max(first, window.start - ahead)),
            "type": "maintenance",
            "resources": str(HostSet(window.hosts)),
            "reservation": window.name,
            "start": plain_number(window.start),
            "end": plain_number(window.end),
        }
        lines.append(json.dumps(event) + "\n")
    counts = {"read": len(reservations), "windows": len(windows), "left_out": dict(left_out)}
    return "".join(lines), counts


def _windows_text(counts: Mapping[str, Any]) -> str:
    """Return in words how many windows reservations became, and why others became none."""
    told = f"{counts['windows']} maintenance windows of {counts['read']} reservations"
    without = ", ".join(f"{number} {reason}" for reason, number in counts["left_out"].items())
    return f"{told} (not {without})" if without else told


def _tell(conversion: Conversion, read: str, odd: Sequence[RepairCount], out: Path | None) -> None:
    """Print how many records of a log were read, repaired and written."""
    from qops_batsim.workload.conversion import DONE

    workload = conversion.workload
    say(read)
    if workload.provenance["window"] is not None:
        say(f"submitted in the window: {conversion.records_in_window}")
    if odd:
        columns = ("what", "done", "jobs") if out else ("what", "done", "jobs", "lines")
        rows = []
        for repair in odd:
            more = ["…"] if len(repair.lines) > _LINES else []
            lines = " ".join([*map(str, repair.lines[:_LINES]), *more])
            row = (repair.description, DONE[repair.choice], str(repair.jobs), lines)
            rows.append(row[: len(columns)])
        print_table("Left out and repaired", columns, rows)
    written = f"{len(workload.jobs)} of {conversion.usable_jobs} usable jobs"
    written = f"{out}: {written} written" if out else written
    say(f"{written}, {workload.processors} processors")
    if conversion.size_is:
        say(f"processors of the machine: {conversion.size_is} (--processors sets it)")
    if conversion.counted:
        say(f"counted in {conversion.counted}")
    load = load_text(conversion.offered_load)
    if conversion.offered_load is None and workload.provenance.get("by") == "amounts":
        load = "not known (--nodes tells what hosts have)"
    say(f"offered load: {load}")

    begin = conversion.first_submission
    last = conversion.last_submission
    calendar = conversion.calendar
    dates = ""
    if calendar is not None:
        dates = f"{calendar.text(begin)} to {calendar.text(last)} ({calendar.time_zone}), "
    say(f"submitted: {dates}second {begin:.10g} to {last:.10g} of the log")
