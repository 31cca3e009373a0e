"""Writing ``PREFIX_decisions.jsonl``, the log of a scheduler's decisions.

Schedulers with a plan log decisions in rows; text is made of them where it is asked for. Nothing
is logged unless :meth:`~qops_batsim.protocol.port.SchedulerModule.keep_decisions` was called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from qops_batsim.core.decision_events import FORMAT, VERSION, LogHeader
from qops_batsim.core.machine import Machine
from qops_batsim.version import __version__


def format_decisions(
    lines: Iterable[bytes],
    *,
    run_id: str,
    scheduler: str,
    options: dict[str, Any],
    processors: int,
    machine: Machine | None = None,
) -> Iterator[bytes]:
    """Yield the contents of ``PREFIX_decisions.jsonl``: a header, then the events' ``lines``."""
    header = LogHeader(
        format=FORMAT,
        version=VERSION,
        scheduler=scheduler,
        options=options,
        processors=processors,
        package_version=__version__,
        run_id=run_id,
        machine=msgspec.UNSET if machine is None else machine,
    )
    yield msgspec.json.encode(header) + b"\n"
    yield from lines
