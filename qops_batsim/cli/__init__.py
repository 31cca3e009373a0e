"""The command line."""

from __future__ import annotations

import os
import sys
from types import TracebackType


def _end_interrupted(
    kind: type[BaseException], error: BaseException, where: TracebackType | None
) -> None:
    """End with one line and exit code 130 if Ctrl-C is pressed while modules are imported."""
    if issubclass(kind, KeyboardInterrupt):
        os.write(2, b"qops-batsim: error: interrupted\n")
        os._exit(130)
    sys.__excepthook__(kind, error, where)


if sys.excepthook is sys.__excepthook__:  # What else prints errors, goes on to do so.
    sys.excepthook = _end_interrupted
