"""``qops-batsim papers``: the experiments of the source papers, run again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qops_batsim.cli import console, options
from qops_batsim.cli.inputs import check_format
from qops_batsim.cli.options import manual
from qops_batsim.cli.texts import number_text
from qops_batsim.errors import InputError, require_one_of
from qops_batsim.files import check_writable

if TYPE_CHECKING:
    from qops_batsim.papers.claims import Claim
    from qops_batsim.papers.report import PaperReport, PaperRequest

ALL = "all"
"""In place of a paper's name: one after the other."""

MANY_FILES = 5
"""Files that are named when they are written; of more, their directory is."""

BOUNDED = "islam2003"
"""The paper whose figures of admittance have bounds."""

_about = manual(
    """
    PAPER: Name of the paper: talby1999, islam2003, ..., or all.
    --quick: Only the part that takes a few minutes at most.
    --out, -o DIR: Write report.json, report.md, a picture of each figure, and runs.parquet with
        every number of every run here; runs that were finished before are not made again. With
        all papers, each has a directory in it.
    --traces DIR: Directory of the logs. Default: $QOPS_SHARED/traces, ../shared/traces, or what
        `workload fetch` keeps.
    --seeds N: Use N seeds. Default: the paper module's choice.
    --format png|pdf|svg: Format of the pictures.
    --bound UNITS: Draw the best known schedule and the bound of any into the admittance figures of
        islam2003: so long a search for each workload, in about seconds. Kept like runs.
    --html FILE: Write everything into one page, which needs no other file: verdicts, figures,
        tables that a click sorts, choices and versions.
    """
)

app = typer.Typer(
    help="Run the experiments of the source papers again, beside the papers' numbers.",
    no_args_is_help=True,
)


@app.command("list")
def list_papers(as_json: options.AsJson = False) -> None:
    """List the papers.

    Examples:

    \b
        qops-batsim papers list
    """
    from qops_batsim.papers.report import PAPERS

    if as_json:
        console.print_json(PAPERS)
        return
    rows = [[*each] for each in PAPERS.items()]
    console.print_table("Papers", ["name", "what it is"], rows)


@app.command("run")
def run(
    paper: Annotated[str, _about("PAPER")],
    quick: Annotated[bool, _about("--quick")] = False,
    as_json: options.AsJson = False,
    out: Annotated[Path | None, _about("--out")] = None,
    traces: Annotated[Path | None, _about("--traces")] = None,
    seeds: Annotated[int | None, _about("--seeds", min=1)] = None,
    jobs_parallel: options.Processes = 1,
    dask: options.Dask = None,
    ending: Annotated[str, _about("--format")] = "png",
    bound: Annotated[float | None, _about("--bound", min=0.1, show_default=False)] = None,
    page: Annotated[Path | None, _about("--html", show_default=False)] = None,
) -> None:
    """Run a paper's experiments and print what became of its claims.

    A claim that the simulations do not confirm is reported as not confirmed. Tables, with the
    paper's numbers, and what was chosen where the paper leaves it open are written into the files
    of --out or --html; without these they are printed before.

    Examples:

    \b
        # The monthly table of the slack-based scheduler:
        qops-batsim papers run talby1999 --quick
        # Everything, with pictures:
        qops-batsim papers run islam2004 --out out/islam2004
        # One page to look at or to send:
        qops-batsim papers run talby1999 --quick --html talby.html
        # Numbers for a notebook:
        qops-batsim papers run pascal2004 --quick --json > pascal.json
        # The quick part of every paper:
        qops-batsim papers run all --quick --out out/papers
    """
    from qops_batsim.papers.report import PAPERS, PaperRequest

    require_one_of("PAPER", paper, (*PAPERS, ALL))
    if page is not None and paper == ALL:
        raise InputError(f"--html {page}: a page has one paper; the name of one is expected")
    if bound is not None:
        _check_bound(paper)
    check_format(ending)
    if traces is not None and not traces.is_dir():
        raise InputError(f"--traces {traces}: no such directory")
    if out is not None:
        console.make_directory(out, "--out")
    if page is not None:
        check_writable(page)
    request = PaperRequest(
        quick=quick, traces=traces, workers=dask or jobs_parallel, seeds=seeds, out=out, bound=bound
    )
    if paper == ALL:
        document = _run_all(request, ending, as_json)
    else:
        document = _run(paper, request, ending, as_json, page).document()
    if as_json:
        console.print_json(document)


def _check_bound(paper: str) -> None:
    from qops_batsim.optimum.solver import require_solver

    if paper != BOUNDED:
        raise InputError(f"--bound beside {paper}: only {BOUNDED} has figures with a bound")
    require_solver()


def _run_all(request: PaperRequest, ending: str, as_json: bool) -> dict[str, Any]:
    """Run all papers, each with a directory of its own; return their documents by name."""
    import msgspec

    from qops_batsim.papers.report import PAPERS

    documents = {}
    for name in PAPERS:
        own = None if request.out is None else request.out / name
        if own is not None:
            console.make_directory(own, "--out")
        of_one = msgspec.structs.replace(request, out=own)
        documents[name] = _run(name, of_one, ending, as_json, None).document()
    return documents


def _run(
    paper: str, request: PaperRequest, ending: str, as_json: bool, page: Path | None
) -> PaperReport:
    """Run a paper, write its files and print its tables, unless JSON is to be printed."""
    import msgspec

    from qops_batsim.papers.report import run_paper

    began = time.perf_counter()
    slow, bar = console.announce_slow("running simulations ..."), console.progress_bar(1, paper)
    with console.announce_compiling(), slow, bar as on_progress:
        report = run_paper(paper, msgspec.structs.replace(request, on_progress=on_progress))
    seconds = time.perf_counter() - began
    paths = _write(report, request, ending, page)
    if not as_json:
        if not paths:
            _print_details(report)
        _print_outcomes(report)
    console.note(f"{paper} in {seconds:.1f} s")
    if len(paths) > MANY_FILES:
        directory = paths[0].parent
        console.note(f"wrote {len(paths)} files in {directory}, report.md with all tables")
    elif paths:
        console.note(f"wrote {', '.join(str(path) for path in paths)}")
    return report


def _write(
    report: PaperReport, request: PaperRequest, ending: str, page: Path | None
) -> list[Path]:
    """Write the report, its pictures and the page, as far as asked for; return the files."""
    if request.out is None and page is None:
        return []
    from qops_batsim.file_set import write_report
    from qops_batsim.files import write_text
    from qops_batsim.papers.pictures import Drawer, draw_figures, paper_page

    workers = request.workers if isinstance(request.workers, int) else 1
    with console.progress_bar(len(report.figures), "pictures") as on_progress:
        drawer = Drawer(workers=workers, kept=request.out, on_progress=on_progress)
        paths = []
        if request.out is not None:
            texts = {"report.md": report.markdown()}

            def further(place: Path) -> list[Path]:
                drawn = draw_figures(report.figures, place, ending=ending, drawer=drawer)
                return [*drawn, *report.write_tidy(place)]

            paths = write_report(request.out, "report.json", report.document(), texts, further)
        if page is not None:
            write_text(page, paper_page(report, console.command_line(), drawer))
            paths.append(page)
    return paths


def _print_details(report: PaperReport) -> None:
    """Print tables, claims with their parts, and choices."""
    from qops_batsim.papers.claims import METHOD

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


def _print_outcomes(report: PaperReport) -> None:
    """Print one screen: what became of the claims."""
    from qops_batsim.papers.report import CLAIMANTS

    columns = ["claim", "what it says", "measured", "no difference below"]
    for whose, ours in CLAIMANTS.items():
        for said, claims in report.outcomes(ours=ours).items():
            if claims:
                title = f"{whose}, {said}: {len(claims)}"
                console.print_table(title, columns, map(_outcome_row, claims))
                console.say("")


def _outcome_row(claim: Claim) -> list[str]:
    from qops_batsim.papers.report import claim_value

    margin = "-" if claim.margin is None else f"{claim.margin:g}"
    return [claim.id, claim.text, claim_value(claim), margin]


def _claim_row(claim: Claim) -> list[str]:
    value, interval, paper = claim.value, claim.interval, claim.paper
    between = "-" if interval is None else f"[{interval[0]:,.2f}, {interval[1]:,.2f}]"
    numbers = [number_text(value), between, number_text(paper)]
    return [claim.id, claim.section, claim.text, claim.verdict, *numbers]
