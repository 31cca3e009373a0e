"""Answers, prices and lists of names as the commands print them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qops_batsim.texts import duration_text, moment_text
from qops_batsim.timing import PLAN_TOLERANCE

if TYPE_CHECKING:
    from qops_batsim.advice.charge_report import JobPrice
    from qops_batsim.advice.quote import PossibleDeadline
    from qops_batsim.core.refusal import Refusal
    from qops_batsim.dates import Calendar
    from qops_batsim.measures.metrics.outcomes import DeadlineMetrics
    from qops_batsim.measures.verify.rules_qos import Lateness
    from qops_batsim.workload.workload_model import Workload


def spare_text(spare: float) -> str:
    """Format the time between an end and its deadline: ``5 min before``, or ``5 min AFTER``."""
    if abs(spare) <= PLAN_TOLERANCE:
        return "at"
    length = duration_text(abs(spare)) if abs(spare) >= 0.5 else "less than 1 s"
    return f"{length} {'before' if spare > 0 else 'AFTER'}"


def fate_text(
    lateness: float | None, *, grace: float = 0.0, refused: bool = False, killed: bool = False
) -> str:
    """Describe what became of a deadline: met, missed by how much, or not met and why.

    ``lateness`` is end − deadline (seconds), None if the job has not ended; up to ``grace``
    (seconds) is in time.
    """
    if refused or killed:
        return f"not met: the job {'was killed' if killed else 'did not run'}"
    if lateness is None:
        return "open: the job had not ended"
    if lateness > max(grace, PLAN_TOLERANCE):
        return f"missed by {spare_text(-lateness).removesuffix(' AFTER')}"
    return f"met, {spare_text(-lateness)} it" if lateness < -PLAN_TOLERANCE else "met, just in time"


def reason_text(refusal: Refusal, calendar: Calendar | None) -> str:
    """Format the reason of a refusal, with calendar dates if a calendar is given."""
    from qops_batsim.core.refusal import sentence

    return sentence(refusal) if calendar is None else sentence(refusal, calendar.text)


def lateness_text(lateness: Lateness) -> str:
    """Summarize how late a run's promises were: ``118 promises checked, none is late``."""
    latest = "none is late"
    if lateness.job is not None:
        latest = f"the greatest lateness is {lateness.seconds:.6f} s, of job {lateness.job!r}"
        latest += f" (grace {lateness.grace:g} s)" if lateness.grace else ""
    if lateness.renewed:
        latest += f"; {lateness.renewed:,} were replaced by later ones when hosts had left"
    unchecked = f", {lateness.unchecked:,} not" if lateness.unchecked else ""
    return f"{lateness.checked:,} promises checked{unchecked}; {latest}"


def price_text(price: JobPrice | None) -> str:
    """Format a job's price: resource charge, QoS charge, total if known, and category."""
    if price is None:
        return "price unknown: no estimate"
    qos = "unknown" if price.qos is None else f"{price.qos:,.2f}"
    cost = "" if price.cost is None else f", together {price.cost:,.2f} {price.currency}"
    return (
        f"resource charge {price.resource:,.0f} processor-s, QoS charge {qos}{cost} "
        f"({price.category})"
    )


def possible_text(possible: PossibleDeadline, arrival: float, calendar: Calendar | None) -> str:
    """Describe a deadline that can be promised: date, time after submission, start, price."""
    killed = f"; {', '.join(possible.killed)} killed" if possible.killed else ""
    return (
        f"{moment_text(possible.deadline, calendar)} "
        f"({duration_text(possible.deadline - arrival)} after submission; "
        f"start {moment_text(possible.start, calendar)}{killed})\n"
        f"{'':19}{price_text(possible.price)}"
    )


def story_text(
    name: str,
    promises: bool,
    run: tuple[DeadlineMetrics, float | None],
    easy: tuple[DeadlineMetrics, float | None] | None,
) -> str:
    """Return a sentence on promises given and kept, with EASY's result on the same jobs.

    ``run`` and ``easy`` are (outcomes of deadlines, utilization from 0 to 1); ``promises`` is
    whether the scheduler ``name`` promises deadlines at all.
    """
    deadlines, used = run
    asked = f"{deadlines.asked.jobs:,} deadline" + ("" if deadlines.asked.jobs == 1 else "s")
    kept = deadlines.kept.jobs
    met = deadlines.met.jobs

    if deadlines.promised.jobs:
        story = f"{name} promised {deadlines.promised.jobs:,} of {asked} and kept "
        story += f"all {kept:,}" if not deadlines.broken.jobs else f"{kept:,} of them"
        if deadlines.renewed:
            story += f", {deadlines.renewed:,} of them put off when hosts had left"
        if met != kept:
            story += f"; {met:,} ended by the deadline asked for"
    elif promises:
        story = f"{name} promised none of {asked}"
    else:
        story = f"{name} promises no deadline; it met {met:,} of {asked}"
        story += f" and refused {deadlines.refused.jobs:,}" if deadlines.refused.jobs else ""

    if easy is not None:
        story += f"; EASY on the same jobs met {easy[0].met.jobs:,}"
    if used is not None:
        other = "" if easy is None or easy[1] is None else f" against {100 * easy[1]:.1f}"
        story += f"; utilization {100 * used:.1f}{other} %"
    return f"{story}."


def names_text(names: Sequence[str], most: int) -> str:
    """Return the first ``most`` names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def asked_text(workload: Workload) -> str:
    """Summarize what jobs ask of their hosts, as shares of all jobs; empty if none asks.

    ``asked by shares of jobs: parts of hosts 88.3 %; of kinds: cores 88.3 %, gpus 9.1 %``
    """
    asked = [each for each in workload.columns.hosts_asked or () if each is not None]
    if not asked:
        return ""
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    for each in asked:
        counts["parts of hosts"] += any(part.amounts for part in each.parts)
        counts["tasks"] += any(part.tasks for part in each.parts)
        counts["hosts of their own"] += any(part.exclusive for part in each.parts)
        counts["several parts"] += len(each.parts) > 1
        # Each once, in an order that does not depend on hashes.
        kinds.update([*dict.fromkeys(kind for part in each.parts for kind in part.amounts)])
        labels.update([*dict.fromkeys(label for part in each.parts for label in part.labels)])
        labels.update(f"licence {name}" for name in each.licences)

    def shares(counted: Counter[str]) -> str:
        told = ((name, 100 * count / len(workload.jobs)) for name, count in counted.most_common())
        return ", ".join(f"{name} {share:.1f} %" for name, share in told if share)

    told = [shares(counts), f"of kinds: {shares(kinds)}", f"with: {shares(labels)}"]
    return "asked by shares of jobs: " + "; ".join(text for text in told if not text.endswith(": "))


def load_text(load: float | None) -> str:
    """Format an offered load, which is None if all jobs are submitted at one date."""
    return "undefined (all jobs are submitted at one date)" if load is None else f"{load:.4f}"
