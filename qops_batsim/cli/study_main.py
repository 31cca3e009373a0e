"""Commands of studies: ``python studies/NAME``, from a checkout with the package installed."""

from __future__ import annotations

import time
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol

import typer

from qops_batsim.cli import console, options
from qops_batsim.cli.inputs import check_format
from qops_batsim.cli.main import Command, run_app
from qops_batsim.cli.options import manual
from qops_batsim.cli.texts import number_text
from qops_batsim.errors import InputError
from qops_batsim.files import check_writable

if TYPE_CHECKING:
    from qops_batsim.experiments.claims import Claim
    from qops_batsim.experiments.report import StudyReport, StudyRequest
    from qops_batsim.experiments.specification import Specification

MANY_FILES = 5
"""Files that are named when they are written; of more, their directory is."""

_about = manual(
    """
    --quick: Only the part that takes a few minutes at most.
    --out, -o DIR: Write report.json, a picture of each figure, and runs.parquet with every number
        of every run here; runs that were finished before are not made again.
    --write FILE: Write verdicts, choices and the tables that are kept into a file (Markdown).
    --traces DIR: Directory of the logs. Default: $QOPS_SHARED/traces, ../shared/traces, or what
        `workload fetch` keeps.
    --seeds N: Use N seeds. Default: the study's choice.
    --format png|pdf|svg: Format of the pictures.
    --bound UNITS: Draw the best known schedule and the bound of any into the figures of
        admittance: so long a search for each workload, in about seconds. Kept like runs.
    --html FILE: Write everything into one page, which needs no other file: verdicts, figures,
        tables that a click sorts, choices and versions.
    """
)


class Study(Protocol):
    """Module of a study: its specification, and what it runs."""

    SPECIFICATION: Specification

    def run(self, request: StudyRequest) -> StudyReport:
        """Run the experiments."""


def study_command(study: Study) -> None:
    """Make the command of a study of the command line, and end.

    That is what the ``__main__.py`` of a study's folder does, after it has put the checkout on
    ``sys.path``. The module ``study`` has ``SPECIFICATION``
    (:func:`~qops_batsim.experiments.specification.read_specification`) and ``run(request)``, which
    returns a :class:`~qops_batsim.experiments.report.StudyReport`. The command prints or writes
    that; ``--help`` tells the options, and examples.
    """
    run_app(lambda: _command_line(study), f"python {_folder()}")


def _folder() -> str:
    """Return the folder of the study that is running, as its user named it."""
    import sys

    return str(Path(sys.argv[0]).parent) if sys.argv[0].endswith("__main__.py") else sys.argv[0]


def _command_line(study: Study) -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    specification, command = study.SPECIFICATION, console.program

    def run(
        quick: Annotated[bool, _about("--quick")] = False,
        as_json: options.AsJson = False,
        out: Annotated[Path | None, _about("--out")] = None,
        traces: Annotated[Path | None, _about("--traces")] = None,
        seeds: Annotated[int | None, _about("--seeds", min=1)] = None,
        processes: options.Processes = 1,
        dask: options.Dask = None,
        ending: Annotated[str, _about("--format")] = "png",
        bound: Annotated[float | None, _about("--bound", min=0.1, show_default=False)] = None,
        page: Annotated[Path | None, _about("--html", show_default=False)] = None,
        kept: Annotated[Path | None, _about("--write", show_default=False)] = None,
    ) -> None:
        from qops_batsim.experiments.report import StudyRequest

        if bound is not None:
            from qops_batsim.optimum.solver import require_solver

            require_solver()
        check_format(ending)
        if traces is not None and not traces.is_dir():
            raise InputError(f"--traces {traces}: no such directory")
        if out is not None:
            console.make_directory(out, "--out")
        for file in filter(None, (page, kept)):
            check_writable(file)
        if not quick:
            cost = specification.cost
            console.note(f"the whole study takes {cost.whole}; --quick {cost.quick}")
        workers = dask or processes
        request = StudyRequest(
            quick=quick, traces=traces, workers=workers, seeds=seeds, out=out, bound=bound
        )
        report = _run(study, request, _Files(ending, page, kept), as_json)
        if as_json:
            console.print_json(report.document())

    run.__doc__ = f"""{specification.title}.

    A claim that the simulations do not confirm is reported as not confirmed. Tables, with a paper's
    own numbers, and what was chosen where it leaves something open are written into the files of
    --html or --write; without any file they are printed before.

    Examples:

    \b
        # Only a part of it, {specification.cost.quick}:
        {command} --quick
        # Everything, with pictures, {specification.cost.whole}:
        {command} --out out/study
        # One page to look at or to send:
        {command} --quick --html study.html
        # Numbers for a notebook:
        {command} --quick --json > study.json
    """
    own = signature(run, eval_str=True)
    without = {"seeds", "bound"} - set(specification.options)
    known = [each for each in own.parameters.values() if each.name not in without]
    # As Typer has to see them.
    run.__signature__ = own.replace(parameters=known)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in known}
    app.command(cls=Command)(run)
    return app


class _Files(NamedTuple):
    """Files that are asked for beside those of --out."""

    ending: str
    page: Path | None
    kept: Path | None


def _run(study: Study, request: StudyRequest, files: _Files, as_json: bool) -> StudyReport:
    """Run a study, write its files and print its tables, unless JSON is to be printed."""
    import msgspec

    began = time.perf_counter()
    slow, bar = console.announce_slow("running simulations ..."), console.progress_bar(1, "runs")
    with console.announce_compiling(), slow, bar as on_progress:
        report = study.run(msgspec.structs.replace(request, on_progress=on_progress))
    seconds = time.perf_counter() - began
    paths = _write(report, study.SPECIFICATION, request, files)
    if not as_json:
        if not paths:
            _print_details(report)
        _print_outcomes(report)
    console.note(f"{report.study} in {seconds:.1f} s")
    if len(paths) > MANY_FILES:
        console.note(f"wrote {len(paths)} files in {paths[0].parent}")
    elif paths:
        console.note(f"wrote {', '.join(str(path) for path in paths)}")
    return report


def _write(
    report: StudyReport, specification: Specification, request: StudyRequest, files: _Files
) -> list[Path]:
    """Write the report, its pictures, the page and the kept tables, as far as asked for."""
    from qops_batsim.experiments.pictures import Drawer, write_files
    from qops_batsim.files import write_text

    workers = request.workers if isinstance(request.workers, int) else 1
    title, command = specification.title, console.command_line()
    with console.progress_bar(len(report.figures), "pictures") as on_progress:
        drawer = Drawer(workers=workers, on_progress=on_progress)
        paths = write_files(
            *(report, title, command),
            out=request.out,
            page=files.page,
            ending=files.ending,
            drawer=drawer,
        )
    if files.kept is not None:
        tables = report.markdown(specification.kept)
        write_text(files.kept, f"# {title}\n\n`{command}`\n\n{tables}")
        paths.append(files.kept)
    return paths


def _print_details(report: StudyReport) -> None:
    """Print tables, claims with their parts, and choices."""
    from qops_batsim.experiments.claims import METHOD

    for table in report.tables:
        console.print_table(table.title, table.headings(), table.text_rows())
        if table.note:
            console.say(table.note)
        console.say("")
    if report.claims:
        columns = ["id", "section", "claim", "verdict", "measured", "95 % interval", "paper"]
        rows = [_claim_row(claim) for claim in report.claims]
        console.print_table("Claims and their parts", columns, rows)
        console.say(METHOD)
        console.say("")
    console.say("Choices where the paper leaves one:")
    for topic, choice in report.choices.items():
        console.say(f"- {topic}: {choice}")
    console.say("")


def _print_outcomes(report: StudyReport) -> None:
    """Print one screen: what became of the claims."""
    from qops_batsim.experiments.report import CLAIMANTS

    columns = ["claim", "what it says", "measured", "no difference below"]
    for whose, ours in CLAIMANTS.items():
        for said, claims in report.outcomes(ours=ours).items():
            if claims:
                title = f"{whose}, {said}: {len(claims)}"
                console.print_table(title, columns, map(_outcome_row, claims))
                console.say("")


def _outcome_row(claim: Claim) -> list[str]:
    from qops_batsim.experiments.report import claim_value

    margin = "-" if claim.margin is None else f"{claim.margin:g}"
    return [claim.id, claim.text, claim_value(claim), margin]


def _claim_row(claim: Claim) -> list[str]:
    value, interval, paper = claim.value, claim.interval, claim.paper
    between = "-" if interval is None else f"[{interval[0]:,.2f}, {interval[1]:,.2f}]"
    numbers = [number_text(value), between, number_text(paper)]
    return [claim.id, claim.section, claim.text, claim.verdict, *numbers]
