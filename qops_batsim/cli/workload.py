"""``qops-batsim workload``: logs and generated workloads."""

from __future__ import annotations

import typer

from qops_batsim.cli import (
    workload_classes,
    workload_deadlines,
    workload_logs,
    workload_synthetic,
)

app = typer.Typer(no_args_is_help=True, help="Read, check, convert and make workloads.")

workload_logs.register(app)
workload_synthetic.register(app)
workload_deadlines.register(app)
workload_classes.register(app)
