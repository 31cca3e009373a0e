"""States of jobs: Slurm's words, and those of sites, for how a job ended."""

from __future__ import annotations

import re
from collections.abc import Mapping

from qops_batsim.workload.log import STATUS_CANCELLED, STATUS_COMPLETED, STATUS_FAILED

ENDED = {
    "COMPLETED": STATUS_COMPLETED,
    "FAILED": STATUS_FAILED,
    "TIMEOUT": STATUS_FAILED,
    "NODE_FAIL": STATUS_FAILED,
    "OUT_OF_MEMORY": STATUS_FAILED,
    "PREEMPTED": STATUS_FAILED,
    "DEADLINE": STATUS_FAILED,
    "BOOT_FAIL": STATUS_FAILED,
    "REQUEUED": STATUS_FAILED,
    "CANCELLED": STATUS_CANCELLED,
}
"""States of jobs that ran and ended, by Slurm's names, with their status in SWF: the default."""

OTHERS = {
    "RUNNING": "running still",
    "PENDING": "waiting still",
    "SUSPENDED": "suspended",
    "RESIZING": "resized: a stretch of a job told in another line",
    "REVOKED": "revoked: run by another cluster",
}
"""Other states, with what they mean."""

STATES = {**dict.fromkeys(ENDED, ""), **OTHERS}
_SHORT = {
    "CD": "COMPLETED",
    "F": "FAILED",
    "TO": "TIMEOUT",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PR": "PREEMPTED",
    "DL": "DEADLINE",
    "BF": "BOOT_FAIL",
    "RQ": "REQUEUED",
    "CA": "CANCELLED",
    "R": "RUNNING",
    "PD": "PENDING",
    "S": "SUSPENDED",
    "RS": "RESIZING",
    "RV": "REVOKED",
}


def state_reader(site: Mapping[str, str]) -> Mapping[str, str]:
    """Return what words for states mean, a site's own among them; empty for no state."""
    own = {word.strip().upper(): state for word, state in site.items()}
    return _Words(own)


class _Words(dict[str, str]):
    def __missing__(self, word: str) -> str:
        state = _state(word, self)
        self[word] = state
        return state


def _state(word: str, own: Mapping[str, str]) -> str:
    """Return the state that a word means, empty if none: ``CANCELLED by 1000``, ``OUT_OF_ME+``."""
    plain = word.strip().upper()
    known = {**_SHORT, **own}
    if plain in known:
        return known[plain]
    whole = re.sub(r"[\s-]+", "_", plain)
    for name in (whole, plain.partition(" ")[0]):
        if name in STATES:
            return name
        if name.endswith("+"):
            begin = [state for state in STATES if state.startswith(name[:-1])]
            if len(begin) == 1:
                return begin[0]
    return ""


STATES_EXPECTED = (
    f"a state of Slurm ({', '.join(STATES)}), or a word that --state-name of `workload from-sacct` "
    "explains,"
)
