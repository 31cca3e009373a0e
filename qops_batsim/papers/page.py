"""A reproduction's report as one page."""

from __future__ import annotations

from pathlib import Path

from qops_batsim.experiments.page import (
    PageFacts,
    PageTable,
    Section,
    html_page,
    made_by,
    pictures_of,
)
from qops_batsim.papers.claims import METHOD
from qops_batsim.papers.pictures import draw_figures
from qops_batsim.papers.report import PAPERS, PaperReport, claim_table


def paper_page(report: PaperReport, command: str) -> str:
    """Return a report as HTML; ``command`` made it."""

    def draw(directory: Path) -> dict[Path, str]:
        files = draw_figures(report.figures, directory, ending="svg")
        return dict(zip(files, (figure.title for figure in report.figures), strict=True))

    tables = [
        PageTable(title=each.title, headings=each.headings(), rows=each.text_rows(), note=each.note)
        for each in report.tables
    ]
    headings, rows = claim_table(report.claims)
    claims = PageTable(title="Claims of the paper", headings=headings, rows=rows, note=METHOD)
    part = "The part that takes few minutes" if report.quick else "The whole study"
    verdicts = ", ".join(f"{count} {name}" for name, count in report.verdicts().items())
    return html_page(
        PAPERS[report.paper],
        f"{part}, simulated again. Claims: {verdicts or 'none'}.",
        [
            Section(title="Verdicts", content=[claims] if rows else []),
            Section(title="Figures", content=pictures_of(draw)),
            Section(title="Tables", content=tables),
            Section(title="Choices", content=[PageFacts(facts=report.choices)]),
            made_by(command),
        ],
    )
