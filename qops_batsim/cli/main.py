"""The ``qops-batsim`` command: wiring and error handling only.

Every command lives in a module of this folder, which is imported when the command is named,
and imports what it needs when it runs, so that ``--help`` is fast and commands start soon.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer

from qops_batsim.cli.console import print_error, print_failure
from qops_batsim.cli.help import WIDEST, Command, Group
from qops_batsim.errors import require_utf8
from qops_batsim.signals import EXIT_CODES, EndingSignal, ending_signals_raise
from qops_batsim.version import __version__

COMMANDS = {
    "run": "run",
    "schedulers": "schedulers",
    "metrics": "metrics",
    "verify": "verify",
    "gantt": "draw",
    "occupation": "draw",
    "plot": "draw",
    "diff": "diff",
    "compare": "compare",
    "bound": "bound",
    "charges": "charges",
    "advise": "advise",
    "explain": "explain",
    "quote": "quote",
    "serve": "serve",
    "engine": "shim",
    "shim": "shim",
}
"""The module of every command."""

GROUPS = ("workload", "platform", "campaign", "papers")
"""Commands that have commands, each a module."""

# The engine reads its command line itself, as Batsim does.
SETTINGS: dict[str, dict[str, Any]] = {
    "engine": {
        "add_help_option": False,
        "context_settings": {"ignore_unknown_options": True, "allow_interspersed_args": False},
    }
}


def command_line(only: str | None = None) -> typer.Typer:
    """Return the command line, with all commands or only one of them, which is there sooner."""
    app = typer.Typer(
        name="qops-batsim",
        help="Deadline and quality-of-service batch scheduling on Batsim workloads.",
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": WIDEST,
        },
    )
    app.callback()(_root)
    for name, module in COMMANDS.items():
        if only in (None, name):
            function = getattr(import_module(f"qops_batsim.cli.{module}"), name)
            app.command(name, cls=Command, **SETTINGS.get(name, {}))(function)
    for name in GROUPS:
        if only in (None, name):
            group = import_module(f"qops_batsim.cli.{name}").app
            for each in group.registered_commands:
                each.cls = Command
            app.add_typer(group, name=name, cls=Group)
    return app


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"qops-batsim {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


# Typer exports only a subclass of the error that it raises for a wrong command line.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

_INTERRUPTED = 130
"""Exit code after Ctrl-C; newer versions of Typer return it."""


def main() -> None:
    """Run the command line; a user's mistake ends in one line and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Terminals of other encodings, and names of files that are not UTF-8.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(_run())
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nothing left to say. Typer ends with 1 in
        # this case as well.
        _drop_output()
        sys.exit(1)
    except OSError as error:
        # What has a name is a file; what is left is the output, as on a full disk.
        problem = "the output cannot be written" if error.filename is None else error.filename
        print_error(f"{problem} ({error.strerror or error})")
        if error.filename is None:
            _drop_output()
        sys.exit(2)


def _drop_output() -> None:
    """Let Python flush at its end without the same error once more."""
    with suppress(OSError):  # It may be no file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run() -> int:
    """Run the command line; return the exit code, errors told."""
    try:
        require_utf8(sys.argv[1:])
        named = sys.argv[1] if len(sys.argv) > 1 else None
        known = named in COMMANDS or named in GROUPS
        with ending_signals_raise():
            code = command_line(named if known else None)(standalone_mode=False)
    except _CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())  # type: ignore[attr-defined]
        else:
            words, context = ["--help"], getattr(error, "ctx", None)
            while context is not None and context.parent is not None:
                words.insert(0, context.info_name)
                context = context.parent
            hint = f" (`{' '.join(['qops-batsim', *words])}`)"
            print_error(f"{error.format_message()}{hint}".replace("\n", " "))  # type: ignore[attr-defined]
        return 2
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except EndingSignal as ending:
        code = ending.code
    except Exception as error:
        if not print_failure(error):
            raise
        return 2
    if code in EXIT_CODES:
        print_error(EXIT_CODES[code])
    return code if isinstance(code, int) else 0
