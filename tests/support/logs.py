"""Reading a log from a file, for tests of readers."""

from __future__ import annotations

from pathlib import Path

from qops_batsim.files import read_stored
from qops_batsim.traces.reading import log_in
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.site import CsvForm
from qops_batsim.workload.log_records import Log


def read_log(
    path: Path, choices: Choices | None = None, kind: str = "", form: CsvForm | None = None
) -> Log:
    """Read a workload log (SWF, accounting of Slurm or PBS, table) from a file."""
    return log_in(read_stored(path, what="a workload log"), str(path), choices, kind, form)
