"""The command of a study with a report, as of a paper: ``python studies/NAME``."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from qops_batsim import InputError
from qops_batsim.experiments import Claim, StudyReport, write_files
from studies.request import StudyRequest
from studies.run_table import tidy_table
from studies.shared import claim_value, run_main, told
from studies.specification import Specification

MANY_FILES = 5
"""Files that are named when they are written; of more, their directory is."""


class Study(Protocol):
    """Module of a study: its specification, and what it runs."""

    SPECIFICATION: Specification

    def run(self, request: StudyRequest) -> StudyReport:
        """Run the experiments."""


def study_command(study: Study) -> None:
    """Make the command of a study of the command line.

    That is what the ``__main__.py`` of a study's folder does, after it has put the checkout on
    ``sys.path``. The module ``study`` has ``SPECIFICATION``
    (:func:`~studies.specification.read_specification`) and ``run(request)``, which returns a
    report. The command prints or writes that; ``--help`` tells the options, and examples.
    """
    asked = _parser(study.SPECIFICATION).parse_args()

    def main() -> None:
        _check(asked)
        _run(study, asked)

    run_main(main)


def _folder() -> str:
    """Return the folder of the study that is running, as its user named it."""
    return str(Path(sys.argv[0]).parent) if sys.argv[0].endswith("__main__.py") else sys.argv[0]


def _parser(specification: Specification) -> argparse.ArgumentParser:
    command, cost = f"python {_folder()}", specification.cost
    parser = argparse.ArgumentParser(
        prog=command,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"""{specification.title}.

A claim is confirmed, contradicted, equivalent or undecided. Tables, with a paper's
own numbers, and what was chosen where it leaves something open are written into the files of
--html or --write; without any file they are printed before.""",
        epilog=f"""examples:
  {command} --quick                      # a part of it, {cost.quick}
  {command} --out out/study              # everything, with pictures, {cost.whole}
  {command} --quick --html study.html    # one page to look at or to send
  {command} --quick --json > study.json  # numbers for a notebook""",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="only the part that takes a few minutes at most")
    add("--json", action="store_true", help="print JSON instead of text")
    out = "directory for report.json, a picture of each figure, and runs.parquet with every number "
    out += "of every run; runs that were finished before are not made again"
    add("--out", "-o", type=Path, metavar="DIR", help=out)
    kept = "file for verdicts, choices and the tables that are kept (Markdown)"
    add("--write", type=Path, metavar="FILE", help=kept)
    add("--html", type=Path, metavar="FILE", help="one page of everything, which needs no other")
    add("--format", choices=("png", "pdf", "svg"), default="png", help="format of the pictures")
    logs = "directory of the logs (default: $QOPS_SHARED/traces, ../shared/traces, or what "
    add("--traces", type=Path, metavar="DIR", help=logs + "`workload fetch` keeps)")
    add("--workers", type=_number, default=1, metavar="N", help="processes")
    add("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster, as tcp://HOST:8786")
    if "seeds" in specification.options:
        add("--seeds", type=_number, metavar="N", help="use N seeds (default: the study's choice)")
    if "bound" in specification.options:
        bound = "search each workload of an admittance figure so long for the best known schedule "
        bound += "and the bound of any, in about seconds, and draw both"
        add("--bound", type=_units, metavar="UNITS", help=bound)
    return parser


def _number(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def _units(text: str) -> float:
    if not 0.1 <= (units := float(text)) < float("inf"):
        raise ValueError(text)
    return units


def _check(asked: argparse.Namespace) -> None:
    """Find out before the work whether its files can be read and written."""
    if asked.traces is not None and not asked.traces.is_dir():
        raise InputError(f"--traces {asked.traces}: no such directory")
    for option in ("out", "html", "write"):
        place: Path | None = getattr(asked, option)
        if place is not None:
            directory = place if option == "out" else place.parent
            try:
                directory.mkdir(parents=True, exist_ok=True)
                if option != "out":
                    place.open("ab").close()
            except OSError as error:
                raise InputError(f"--{option} {place}: cannot be written ({error})") from None


def _run(study: Study, asked: argparse.Namespace) -> None:
    """Run a study, write its files and print its tables, or JSON."""
    specification = study.SPECIFICATION
    if not asked.quick:
        cost = specification.cost
        print(f"the whole study takes {cost.whole}; --quick {cost.quick}", file=sys.stderr)
    began = time.perf_counter()
    report = study.run(
        StudyRequest(
            quick=asked.quick,
            traces=asked.traces,
            workers=asked.dask or asked.workers,
            seeds=getattr(asked, "seeds", None),
            out=asked.out,
            bound=getattr(asked, "bound", None),
            on_progress=told(),
        )
    )
    seconds = time.perf_counter() - began
    paths = _write(report, specification, asked)
    if asked.json:
        print(json.dumps(msgspec.to_builtins(report.document()), indent=2, allow_nan=False))
    else:
        if not paths:
            print(report.markdown())
        print("\n".join(_outcomes(report)))
    print(f"{report.study} in {seconds:.1f} s", file=sys.stderr)
    if paths:
        many = len(paths) > MANY_FILES
        named = f"{len(paths)} files in {paths[0].parent}" if many else ", ".join(map(str, paths))
        print(f"wrote {named}", file=sys.stderr)


def _write(
    report: StudyReport, specification: Specification, asked: argparse.Namespace
) -> list[Path]:
    """Write the report, its pictures, the page and the kept tables, as far as asked for."""
    title, command = specification.title, shlex.join(["python", _folder(), *sys.argv[1:]])
    paths = write_files(
        *(report, title, command),
        out=asked.out,
        page=asked.html,
        ending=asked.format,
        workers=asked.workers,
    )
    if asked.out is not None and report.runs:
        paths.append(asked.out / "runs.parquet")
        tidy_table(report.runs).write_parquet(paths[-1])
    if asked.write is not None:
        tables = report.markdown(specification.kept)
        asked.write.write_text(f"# {title}\n\n`{command}`\n\n{tables}", "utf-8")
        paths.append(asked.write)
    return paths


def _outcomes(report: StudyReport) -> Iterator[str]:
    """Yield lines on what became of the claims."""
    for whose, ours in (("The paper's claims", False), ("Robustness checks of ours", True)):
        for said, claims in report.outcomes(ours=ours).items():
            if claims:
                yield f"{whose}, {said}: {len(claims)}"
                yield from (f"  {each.id}: {each.text}: {_value(each)}" for each in claims)


def _value(claim: Claim) -> str:
    """Return the number of a claim with its interval, and the margin of equivalence."""
    told = "" if claim.margin is None else f" (equivalent below {claim.margin:g})"
    return claim_value(claim) + told * (claim.value is not None)
