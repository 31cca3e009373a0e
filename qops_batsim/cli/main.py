"""The ``qops-batsim`` command: its subcommands, help, and errors.

Every command lives in a module of this folder, which is imported when the command is named,
and imports what it needs when it runs, so that ``--help`` is fast and commands start soon.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from qops_batsim import compiled
from qops_batsim.cli import console
from qops_batsim.cli.console import print_error, print_failure, warn
from qops_batsim.errors import require_utf8
from qops_batsim.garbage import no_garbage_collection_at_exit
from qops_batsim.signals import EXIT_CODES, EndingSignal, ending_signals_raise
from qops_batsim.version import __version__

COMMANDS: dict[str, dict[str, str]] = {
    "Simulate": {
        "run": "Run a scheduler on a workload, with the embedded engine or the real Batsim.",
        "schedulers": "List the schedulers, or describe one and its options, or check it.",
        "workload": "Read, check, convert and make workloads.",
        "platform": "Make and show platforms (SimGrid XML).",
    },
    "Look at runs": {
        "metrics": "Print the metrics of runs side by side, of this package or of the real Batsim.",
        "verify": "Check that a run's files describe a possible schedule; also runs of the real "
        "Batsim.",
        "diff": "Compare two runs job by job: start, finish, state, hosts, and what was requested.",
        "plot": "Draw what a run did: a Gantt chart, utilization, occupation, or deadlines.",
    },
    "Answers for centres and their users": {
        "advise": "Tell which deadlines a centre could have promised to the jobs of a log, and at "
        "what price.",
        "quote": "Tell which deadline one more job could have been promised at some time of a "
        "finished run.",
        "queue": "Tell what can be promised to new jobs in a machine's queue as it is now.",
        "explain": "Tell why a job was refused, delayed or killed, and what could have been "
        "promised.",
        "charges": "Print what the jobs of a finished run pay, by category and in total.",
    },
    "On a real machine": {
        "live": "Let a scheduler decide for a real Slurm, or only watch what it would decide.",
    },
    "Experiments": {
        "compare": "Compare schedulers on deadline workloads over loads and seeds (Islam et al. "
        "2003).",
        "study": "Run a grid of logs, loads, deadlines, schedulers and seeds, and compare the "
        "schedulers.",
        "bound": "Compute an upper bound of what any scheduler could admit, and search for the "
        "best schedule.",
    },
    "With Batsim": {
        "serve": "Let a scheduler decide, over a socket, for Batsim 3.1 to 4.2 or 5, or for "
        "another engine.",
        "engine": "Stand in for Batsim 4 or 5: simulate with its options, its protocol and its "
        "output files.",
    },
}
"""The commands with their summaries, under the headings of ``--help``."""

MODULES = {"engine": "engine_command"}
"""Modules of commands that are not named like these."""

DEFAULTS = {"live": "decide"}
"""Commands of groups that are meant where a scheduler is named in their place."""

# The engine reads its command line itself, as Batsim does.
SETTINGS: dict[str, dict[str, Any]] = {
    "engine": {
        "add_help_option": False,
        "context_settings": {"ignore_unknown_options": True, "allow_interspersed_args": False},
    }
}


class _PlainHelp:
    """Help texts without backquotes; options whose values need no check are parsed faster."""

    def get_help(self, ctx: Any) -> str:
        """Return the help text, without the backquotes that mark code."""
        text: str = super().get_help(ctx)  # type: ignore[misc]
        return text.replace("`", "")

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the command line, without Typer's slow checks of values that need none."""
        _skip_checks(self.get_params(ctx))  # type: ignore[attr-defined]
        return super().parse_args(ctx, args)  # type: ignore[misc]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options to the help, under their headings."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            heading = getattr(parameter, "rich_help_panel", None) or kind
            if (row := parameter.get_help_record(ctx)) is not None:
                sections.setdefault(heading, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class Command(_PlainHelp, TyperCommand):
    """A command of ``qops-batsim``, such as ``run``."""


class Group(_PlainHelp, TyperGroup):
    """A group of commands of ``qops-batsim``, such as ``workload``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the named command; in ``live``, a scheduler's name stands for ``decide NAME``."""
        default = DEFAULTS.get(self.name or "")
        if default is not None and args[0] not in self.commands:
            from qops_batsim.schedulers.registry import scheduler_names

            if ".py:" in args[0] or args[0] in scheduler_names():
                args = [default, *args]
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options and then the commands to the help."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their whole summaries to the help; Typer would cut them."""
        sections = {"Commands": self.commands} if ctx.parent else COMMANDS
        for heading, names in sections.items():
            commands = [self.commands[name] for name in names]
            texts = [
                (command.short_help or command.help or "").split("\n\n")[0] for command in commands
            ]
            with formatter.section(heading):
                formatter.write_dl([*zip(names, texts, strict=True)])


def command_line(named: str | None = None) -> typer.Typer:
    """Make the Typer application with all commands, or only the ``named`` one, to load faster.

    If there is no command of this name, all are listed, but none can be run.
    """
    summaries = {name: text for section in COMMANDS.values() for name, text in section.items()}
    app = typer.Typer(
        name="qops-batsim",
        help="Deadline and quality-of-service batch scheduling on Batsim workloads.",
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root)

    for name, summary in summaries.items():
        if named not in (None, name):
            if named not in summaries:
                app.command(name, short_help=summary)(lambda: None)
            continue

        module = import_module(f"qops_batsim.cli.{MODULES.get(name, name)}")
        if hasattr(module, "app"):
            for command in module.app.registered_commands:
                command.cls = Command
            app.add_typer(module.app, name=name, cls=Group, short_help=summary)
        else:
            made = app.command(name, cls=Command, short_help=summary, **SETTINGS.get(name, {}))
            made(getattr(module, name))
    return app


def _skip_checks(parameters: Iterable[Any]) -> None:
    """Keep Typer from loading a large package to check texts and options that are not given."""
    for parameter in parameters:
        # Older versions of Typer have no descriptors, and no such package.
        if hasattr(parameter, "type_descriptor") and "process_value" not in vars(parameter):
            parameter.process_value = partial(_value, parameter, parameter.process_value)


def _value(parameter: Any, check: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """Return an option's value; call Typer's ``check`` only if its type is not the expected one."""
    if value is None and not parameter.required:
        value = () if parameter.multiple or parameter.nargs == -1 else None
    elif value and parameter.type_descriptor.annotation == list[str]:
        value = list(value)
    elif type(value) not in (str, int, float) or (
        type(value) is not parameter.type_descriptor.annotation
    ):
        return check(context, value)
    return parameter.callback(context, parameter, value) if parameter.callback else value


def _show_version(value: bool) -> None:
    if value:
        how = "compiled" if compiled.is_compiled() else "not compiled, and slower"
        typer.echo(f"qops-batsim {__version__} ({how})")
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
    """Run the command line; an error of the user is printed as one line, with exit code 2."""
    named = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    completing = "_QOPS_BATSIM_COMPLETE" in os.environ
    run_app(partial(command_line, None if completing else named), "qops-batsim")


def run_app(make: Callable[[], typer.Typer], program: str) -> None:
    """Make a Typer application with ``make``, run it, and exit with its exit code.

    ``program`` is what the user typed to start it, for messages.
    """
    console.program = program
    # NumPy's linear algebra is not used, but its threads would spin for a while on all cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    no_garbage_collection_at_exit()

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # It was closed from the beginning, as by >&-.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Terminals of other encodings, and names of files that are not UTF-8.
        sys.stdout.reconfigure(errors="backslashreplace")

    try:
        with _warnings_as_lines():
            warn(compiled.warning())
            sys.exit(_run(make))
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
    """Discard unwritten output, so that Python does not report the same error again at exit."""
    with suppress(OSError):  # It may be no file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print this package's warnings like the command's own, as one line each."""
    with warnings.catch_warnings():
        otherwise = warnings.showwarning

        def show(message: Any, category: type[Warning], filename: str, *where: Any) -> None:
            if category is RuntimeWarning and filename.startswith(f"{Path(__file__).parents[1]}"):
                warn(str(message))
            else:
                otherwise(message, category, filename, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _run(make: Callable[[], typer.Typer]) -> int:
    """Run the application and print its errors; return the exit code."""
    try:
        require_utf8(sys.argv[1:])
        with ending_signals_raise():
            code = make()(standalone_mode=False)
    except _CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())  # type: ignore[attr-defined]
        else:
            words = ["--help"]
            context = getattr(error, "ctx", None)
            while context is not None and context.parent is not None:
                words.insert(0, context.info_name)
                context = context.parent
            hint = f" (`{' '.join([console.program, *words])}`)"
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
