"""Jobs of several clusters, which are machines of their own, told apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from qops_batsim.errors import InputError, did_you_mean, printable, shown

if TYPE_CHECKING:
    from qops_batsim.workload.accounting.rows import Rows


def refuse_several_clusters(
    names: Iterable[str], source: str, what: str = "jobs", remedy: str = ""
) -> None:
    """Raise an InputError if ``what`` a file has is of several clusters; empty names are of none.

    ``remedy`` says how to take one of them: ``{}`` stands for its name.
    """
    clusters = sorted({*names} - {""})
    if len(clusters) > 1:
        told = ", ".join(map(printable, clusters))
        hint = f" ({remedy.format(clusters[0])})" if remedy else ""
        raise InputError(
            f"{source}: has {what} of clusters {told}, which are machines of their own; the {what} "
            f"of one cluster are expected{hint}"
        )


def take_cluster(rows: Rows, chosen: str, source: str) -> None:
    """Leave out, and count, the jobs of clusters other than the ``chosen`` one; without a choice,
    raise an InputError if there are several.

    Jobs that another cluster of a federation ran (REVOKED) are of no cluster here.
    """
    column = rows.marks.get("cluster")
    if column is None or not any(column.words):
        if chosen:
            raise InputError(
                f"{source}: names no cluster, and --cluster is {shown(chosen)}; leave it out"
            )
        return

    ran = rows.states.where(lambda state: state != "REVOKED")
    clusters = {column.words[place] for place in np.unique(column.which[ran]).tolist()} - {""}
    if not chosen:
        remedy = "as of `sacct --clusters {0}`; `workload import --cluster {0}` takes one"
        refuse_several_clusters(clusters, source, remedy=remedy)
        return
    if chosen not in clusters:
        hint = did_you_mean(chosen, clusters)
        raise InputError(f"{source}: no job is of cluster {shown(chosen)}; choose another{hint}")
    other = column.where(lambda word: word not in ("", chosen))
    rows.leave_out("other_cluster", "of another cluster", other)
    rows.take(~other)
