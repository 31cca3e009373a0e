"""Options for reading a batch system's accounting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, did_you_mean, require_one_of, shown
from qops_batsim.workload.accounting.node_sizes import NodeSizes
from qops_batsim.workload.accounting.states import ENDED, STATES

_ACCEPTED = {
    "restarts": ("last", "each"),
    "by": ("cores", "nodes", "gpus", "binding", "amounts"),
    "submission": ("submit", "eligible"),
}


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """Options for reading a batch system's accounting: which rows are taken as jobs, what a size
    counts, and how dates are read.
    """

    states: Sequence[str] = tuple(ENDED)
    """Names of states, by default those of jobs that ran and ended. A job that was cancelled
    before it started is counted, and is no job."""
    state_names: Mapping[str, str] = {}
    """Meanings of a site's own words for states: ``{"fertig": "COMPLETED"}``."""
    restarts: str = "last"
    """Rows of one id: ``last`` takes the last of them, ``each`` takes all as jobs of their own
    (``4711``, ``4711r1``, …)."""
    by: str = "cores"
    """Unit of the size of a job and of the machine: ``cores``, ``nodes``, ``gpus``, or the cores
    that the ``binding`` resource takes: see
    :func:`~qops_batsim.workload.accounting.sizes.binding_sizes`. By ``amounts``, a job has hosts,
    and asks for cores, memory and GPUs of each."""
    cluster: str = ""
    """Name of the cluster whose jobs are taken, where a file has jobs of several."""
    partitions: Sequence[str] = ()
    """Names of the partitions (of PBS: queues) whose jobs are taken; empty: of all."""
    qos: Sequence[str] = ()
    accounts: Sequence[str] = ()
    reservations: Sequence[str] = ()
    """Jobs inside a reservation are set apart, but for those of these names, which are taken alone;
    ``all`` takes every job."""
    nodes: NodeSizes | None = None
    """Sizes of the partitions; by default, the most in use at once."""
    submission: str = "submit"
    """Date from which a job waits: ``submit``, or ``eligible``, when dependencies and ``--begin``
    of the job allowed it."""
    time_zone: str | None = None
    """Zone of dates without UTC offset."""
    default_zone: str = "UTC"
    """Their zone where neither ``time_zone`` nor the log tells it."""
    date_format: str | None = None
    """Format of dates (as for ``strftime``), if not ISO 8601 or seconds since 1970."""

    def __post_init__(self) -> None:
        for name, accepted in _ACCEPTED.items():
            require_one_of(name, getattr(self, name), accepted)
        for state in (*self.states, *self.state_names.values()):
            if state not in STATES:
                raise InputError(f"state {shown(state)} is not known{did_you_mean(state, STATES)}")
        if self.time_zone is not None:
            Calendar(0, self.time_zone).check("the given time zone")
        if self.nodes is not None:
            self.nodes.refuse_cut(self.partitions)

    @property
    def unit(self) -> str:
        """What job sizes count: ``cores``, ``nodes`` or ``gpus``."""
        return {"binding": "cores", "amounts": "nodes"}.get(self.by, self.by)

    @property
    def zone_name(self) -> str:
        """The time zone of dates without UTC offset; InputError if the default is none."""
        if self.time_zone is None:
            where = "--time-zone is not given, and the time zone of this machine (TZ)"
            Calendar(0, self.default_zone).check(where)
        return self.time_zone or self.default_zone


def elsewhere(what: str, name: str, wanted: Sequence[str]) -> str:
    """Return why a job is not among those chosen by partition, QOS, account or reservation; "" if
    it is.

    ``what`` is one of these four, ``name`` the job's (or several partitions in any of which it may
    start: ``a,b``), ``wanted`` the chosen names. Nothing wanted means every job, but none inside a
    reservation; of reservations, ``all`` means every job as well.
    """
    if what == "reservation" and not wanted:
        return "inside a reservation (--reservation takes them)" if name else ""
    if not wanted or (what == "reservation" and "all" in wanted):
        return ""
    names = name.split(",") if what == "partition" else [name]
    return "" if set(names) & set(wanted) else f"of another {what}"
