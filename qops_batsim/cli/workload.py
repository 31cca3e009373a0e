"""``qops-batsim workload``: logs and generated workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from qops_batsim.cli.workload_accounting import from_csv, from_pbs, from_sacct
from qops_batsim.cli.workload_classes import classes, mixed
from qops_batsim.cli.workload_deadlines import deadlines, scale
from qops_batsim.cli.workload_estimates import estimates
from qops_batsim.cli.workload_logs import from_swf, lint
from qops_batsim.cli.workload_synthetic import fetch, generate

app = typer.Typer(no_args_is_help=True, help="Read, check, convert and make workloads.")

COMMANDS: dict[str, Callable[..., Any]] = {
    "from-swf": from_swf,
    "from-sacct": from_sacct,
    "from-pbs": from_pbs,
    "from-csv": from_csv,
    "lint": lint,
    "generate": generate,
    "fetch": fetch,
    "scale": scale,
    "deadlines": deadlines,
    "estimates": estimates,
    "classes": classes,
    "mixed": mixed,
}

for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
