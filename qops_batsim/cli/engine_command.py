"""``qops-batsim engine``: the embedded engine under Batsim's options."""

from __future__ import annotations

from typing import Annotated

import typer


def engine(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="BATSIM_OPTIONS", help="Options of Batsim 4.")
    ] = None,
) -> int:
    """Stand in for Batsim 4 or 5: simulate with its options, its protocol and its output files.

    Any Batsim decision process can be at the other end of the socket.
    `qops-batsim engine --help` lists the options. With `--as 5` in front it is Batsim 5,
    and decision components may be libraries. `--install` writes an executable that
    runs it, for tools that look Batsim up on PATH.

    Examples:

    \b
        qops-batsim engine -p platform.xml -w workload.json -e out/run
        qops-batsim engine --as 5 -p platform.xml -w workload5.json \
          -s tcp://localhost:28000 ''
        qops-batsim engine --install ~/shim/batsim
    """
    from qops_batsim.cli.engine import run_engine

    return run_engine(arguments or [])
