"""A campaign's report as one page."""

from __future__ import annotations

import msgspec

from qops_batsim.experiments.best_lines import LINES
from qops_batsim.experiments.campaign_pictures import draw_campaign
from qops_batsim.experiments.campaign_runs import CampaignRuns
from qops_batsim.experiments.campaign_tables import method_text, summaries, table_cells
from qops_batsim.experiments.page import (
    PageFacts,
    PageTable,
    Section,
    html_page,
    made_by,
    pictures_of,
)


def campaign_page(runs: CampaignRuns, command: str) -> str:
    """Return the finished runs of a campaign as HTML; ``command`` made it."""
    found = summaries(runs)
    headings, rows = table_cells(runs, found)
    finished = sum(each.runs for each in found if each.scheduler not in LINES)
    failed = sum(each.failed for each in found)
    grid = msgspec.to_builtins(runs.campaign)
    return html_page(
        runs.campaign.name,
        f"{finished:,} runs{f', {failed:,} failed' if failed else ''}. {method_text(runs)}",
        [
            Section(
                title="Means and verdicts",
                content=[PageTable(title="Means", headings=headings, rows=rows)],
            ),
            Section(
                title="Pictures",
                content=pictures_of(lambda place: draw_campaign(found, place, ending="svg")),
            ),
            Section(
                title="Choices",
                content=[
                    PageFacts(facts={key: msgspec.json.encode(grid[key]).decode() for key in grid})
                ],
            ),
            made_by(command, campaign=runs.description.key),
        ],
    )
