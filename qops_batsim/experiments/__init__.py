"""Many runs: cases and seeds, intervals, comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.experiments.best_lines import LINES as LINES
    from qops_batsim.experiments.best_lines import BoundCase as BoundCase
    from qops_batsim.experiments.best_lines import BoundSearch as BoundSearch
    from qops_batsim.experiments.best_lines import Unadmitted as Unadmitted
    from qops_batsim.experiments.best_lines import bound_case as bound_case
    from qops_batsim.experiments.changed_options import ChangedOptions as ChangedOptions
    from qops_batsim.experiments.claims import CONFIRMED as CONFIRMED
    from qops_batsim.experiments.claims import NOT_JUDGED as NOT_JUDGED
    from qops_batsim.experiments.claims import TOO_FEW as TOO_FEW
    from qops_batsim.experiments.claims import UNDECIDED as UNDECIDED
    from qops_batsim.experiments.claims import UNTESTED as UNTESTED
    from qops_batsim.experiments.claims import Claim as Claim
    from qops_batsim.experiments.claims import Told as Told
    from qops_batsim.experiments.claims import Values as Values
    from qops_batsim.experiments.claims import as_checks as as_checks
    from qops_batsim.experiments.claims import averages as averages
    from qops_batsim.experiments.claims import by_seed as by_seed
    from qops_batsim.experiments.claims import changes as changes
    from qops_batsim.experiments.claims import claim_with_parts as claim_with_parts
    from qops_batsim.experiments.claims import differences as differences
    from qops_batsim.experiments.claims import ends_of as ends_of
    from qops_batsim.experiments.claims import invariant_claim as invariant_claim
    from qops_batsim.experiments.claims import jointly_judged as jointly_judged
    from qops_batsim.experiments.claims import range_claim as range_claim
    from qops_batsim.experiments.claims import sign_claim as sign_claim
    from qops_batsim.experiments.claims import slopes as slopes
    from qops_batsim.experiments.claims import untested as untested
    from qops_batsim.experiments.claims import whole_claims as whole_claims
    from qops_batsim.experiments.deadline_runs import BLIND as BLIND
    from qops_batsim.experiments.deadline_runs import Contestant as Contestant
    from qops_batsim.experiments.deadline_runs import DeadlineCase as DeadlineCase
    from qops_batsim.experiments.deadline_runs import DeadlineRuns as DeadlineRuns
    from qops_batsim.experiments.deadline_runs import Scenario as Scenario
    from qops_batsim.experiments.deadline_runs import checked_outcomes as checked_outcomes
    from qops_batsim.experiments.deadline_runs import contestant_of as contestant_of
    from qops_batsim.experiments.deadline_runs import contestants_of as contestants_of
    from qops_batsim.experiments.deadline_runs import outcomes_of as outcomes_of
    from qops_batsim.experiments.deadline_workload import DeadlineFacts as DeadlineFacts
    from qops_batsim.experiments.deadline_workload import deadline_facts as deadline_facts
    from qops_batsim.experiments.deadline_workload import (
        give_deadlines_by_need as give_deadlines_by_need,
    )
    from qops_batsim.experiments.listed_cases import LogWindow as LogWindow
    from qops_batsim.experiments.listed_cases import StudyLog as StudyLog
    from qops_batsim.experiments.log_files import find_trace as find_trace
    from qops_batsim.experiments.log_files import trace_digest as trace_digest
    from qops_batsim.experiments.log_files import usual_places as usual_places
    from qops_batsim.experiments.page import PageTable as PageTable
    from qops_batsim.experiments.page import markdown_table as markdown_table
    from qops_batsim.experiments.pictures import draw_figure as draw_figure
    from qops_batsim.experiments.pictures import write_files as write_files
    from qops_batsim.experiments.pool import KeptRuns as KeptRuns
    from qops_batsim.experiments.pool import run_cases as run_cases
    from qops_batsim.experiments.report import Figure as Figure
    from qops_batsim.experiments.report import Panel as Panel
    from qops_batsim.experiments.report import Series as Series
    from qops_batsim.experiments.report import StudyReport as StudyReport
    from qops_batsim.experiments.report import line_of_means as line_of_means
    from qops_batsim.experiments.report_table import ReportColumn as ReportColumn
    from qops_batsim.experiments.report_table import TableText as TableText
    from qops_batsim.experiments.report_table import number_text as number_text
    from qops_batsim.experiments.report_table import table_of as table_of
    from qops_batsim.experiments.report_table import value_at as value_at
    from qops_batsim.experiments.scores import ScoreBound as ScoreBound
    from qops_batsim.experiments.scores import ScoredRuns as ScoredRuns
    from qops_batsim.experiments.scores import bound_key as bound_key
    from qops_batsim.experiments.statistics import AMOUNT as AMOUNT
    from qops_batsim.experiments.statistics import ENOUGH as ENOUGH
    from qops_batsim.experiments.statistics import LEVEL as LEVEL
    from qops_batsim.experiments.statistics import NOMINAL as NOMINAL
    from qops_batsim.experiments.statistics import SHARE as SHARE
    from qops_batsim.experiments.statistics import UNLIMITED as UNLIMITED
    from qops_batsim.experiments.statistics import Interval as Interval
    from qops_batsim.experiments.statistics import Limits as Limits
    from qops_batsim.experiments.statistics import chance_of_signs as chance_of_signs
    from qops_batsim.experiments.statistics import chance_of_size as chance_of_size
    from qops_batsim.experiments.statistics import limits_of as limits_of
    from qops_batsim.experiments.statistics import limits_of_difference as limits_of_difference
    from qops_batsim.experiments.statistics import mean_interval as mean_interval
    from qops_batsim.experiments.statistics import nested_interval as nested_interval
    from qops_batsim.experiments.statistics import paired_difference as paired_difference
    from qops_batsim.experiments.statistics import quantile as quantile
    from qops_batsim.experiments.statistics import ratio_of_means as ratio_of_means
    from qops_batsim.experiments.study import Study as Study
    from qops_batsim.experiments.study import read_study as read_study
    from qops_batsim.experiments.study import study_of as study_of
    from qops_batsim.experiments.study import with_need as with_need
    from qops_batsim.experiments.study import with_schedulers as with_schedulers
    from qops_batsim.experiments.study_report import StudySummary as StudySummary
    from qops_batsim.experiments.study_report import page_tables as page_tables
    from qops_batsim.experiments.study_report import summaries as summaries
    from qops_batsim.experiments.study_runs import CellOutcome as CellOutcome
    from qops_batsim.experiments.study_runs import StudyRuns as StudyRuns
    from qops_batsim.experiments.study_runs import read_study_runs as read_study_runs
    from qops_batsim.experiments.study_runs import run_study as run_study
    from qops_batsim.experiments.study_runs import study_inputs as study_inputs
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "best_lines": "BoundCase BoundSearch LINES Unadmitted bound_case",
            "changed_options": "ChangedOptions",
            "claims": (
                "CONFIRMED Claim NOT_JUDGED TOO_FEW Told UNDECIDED UNTESTED Values as_checks "
                "averages by_seed changes claim_with_parts differences ends_of invariant_claim "
                "jointly_judged range_claim sign_claim slopes untested whole_claims"
            ),
            "deadline_runs": (
                "BLIND Contestant DeadlineCase DeadlineRuns Scenario checked_outcomes "
                "contestant_of contestants_of outcomes_of"
            ),
            "deadline_workload": "DeadlineFacts deadline_facts give_deadlines_by_need",
            "listed_cases": "LogWindow StudyLog",
            "log_files": "find_trace trace_digest usual_places",
            "page": "PageTable markdown_table",
            "pictures": "draw_figure write_files",
            "pool": "KeptRuns run_cases",
            "report": "Figure Panel Series StudyReport line_of_means",
            "report_table": "ReportColumn TableText number_text table_of value_at",
            "scores": "ScoreBound ScoredRuns bound_key",
            "statistics": (
                "AMOUNT ENOUGH Interval LEVEL Limits NOMINAL SHARE UNLIMITED chance_of_signs "
                "chance_of_size limits_of limits_of_difference mean_interval nested_interval "
                "paired_difference quantile ratio_of_means"
            ),
            "study": "Study read_study study_of with_need with_schedulers",
            "study_report": "StudySummary page_tables summaries",
            "study_runs": "CellOutcome StudyRuns read_study_runs run_study study_inputs",
        },
    )
