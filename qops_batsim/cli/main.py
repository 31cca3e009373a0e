"""The ``qops-batsim`` command: wiring and error handling only.

Every command lives in a module of this folder and imports what it needs when it
runs, so ``--help`` stays fast.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from qops_batsim.cli import (
    charges,
    compare,
    diff,
    draw,
    explain,
    metrics,
    papers,
    platform,
    quote,
    run,
    schedulers,
    serve,
    shim,
    verify,
    workload,
)
from qops_batsim.cli.console import print_error, print_failure
from qops_batsim.version import __version__

app = typer.Typer(
    name="qops-batsim",
    help="Deadline and quality-of-service batch scheduling on Batsim workloads.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"qops-batsim {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


COMMANDS: dict[str, Callable[..., Any]] = {
    "run": run.run,
    "schedulers": schedulers.schedulers,
    "metrics": metrics.metrics,
    "verify": verify.verify,
    "gantt": draw.gantt,
    "occupation": draw.occupation,
    "plot": draw.plot,
    "diff": diff.diff,
    "compare": compare.compare,
    "charges": charges.charges,
    "explain": explain.explain,
    "quote": quote.quote,
    "serve": serve.serve,
    "engine": shim.engine,
    "shim": shim.shim,
}
"""Every command by name, in the order in which ``--help`` lists them."""

# The engine reads its command line itself, as Batsim does.
SETTINGS: dict[str, dict[str, Any]] = {
    "engine": {
        "add_help_option": False,
        "context_settings": {"ignore_unknown_options": True, "allow_interspersed_args": False},
    }
}

for _name, _command in COMMANDS.items():
    app.command(_name, **SETTINGS.get(_name, {}))(_command)
for _name, _group in (("workload", workload), ("platform", platform), ("papers", papers)):
    app.add_typer(_group.app, name=_name)


# Typer exports only a subclass of the error that it raises for a wrong command line.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

# What a shell reports of an interrupted program; newer versions of Typer return it.
_INTERRUPTED = 130


def main() -> None:
    """Run the command line; a user's mistake ends in one line and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Terminals of other encodings, and names of files that are not UTF-8.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(_run())
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nothing left to say, also not when
        # Python flushes at its end. Typer ends with 1 in this case as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # Our files report their own errors: what is left is the output, as on a full disk.
        print_error(f"the output cannot be written ({error.strerror or error})")
        sys.exit(2)


def _run() -> int:
    """Run the command line; return the exit code, errors told."""
    try:
        code = app(standalone_mode=False)
    except _CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())  # type: ignore[attr-defined]
        else:
            print_error(error.format_message().replace("\n", " "))  # type: ignore[attr-defined]
        return 2
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except Exception as error:
        if not print_failure(error):
            raise
        return 2
    if code == _INTERRUPTED:
        print_error("interrupted")
    return code if isinstance(code, int) else 0
