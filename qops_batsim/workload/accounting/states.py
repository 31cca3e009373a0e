"""States of jobs in accounting, by Slurm's names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from qops_batsim.workload.log_records import (
    STATUS_CANCELLED,
    STATUS_COMPLETED,
    STATUS_FAILED,
)

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
    "RESIZING": "resized: the job's last stretch is not in the file",
    "REVOKED": "revoked: run by another cluster",
}
"""Other states, with what they mean."""

STATES = (*ENDED, *OTHERS)

STATES_EXPECTED = f"a state of Slurm ({', '.join(STATES)}), or a word that --state-name explains,"

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


def state_reader(site: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that maps a word (``CANCELLED by 1000``, ``OUT_OF_ME+``) to one of Slurm's
    job states, "" if unknown; ``site`` gives the states of the site's own words.
    """
    known = _SHORT | {word.strip().upper(): state for word, state in site.items()}

    @cache
    def state_of(word: str) -> str:
        plain = word.strip().upper()
        if plain in known:
            return known[plain]

        whole = re.sub(r"[\s-]+", "_", plain)
        for name in (whole, plain.partition(" ")[0]):
            if name in STATES:
                return name
            if name.endswith("+"):  # A column that was too narrow.
                begun = [state for state in STATES if state.startswith(name[:-1])]
                if len(begun) == 1:
                    return begun[0]
        return ""

    return state_of
