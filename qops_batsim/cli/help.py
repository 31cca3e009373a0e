"""Commands and groups of commands whose help reads well on 80 columns."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

WIDEST = 100
"""No line of a help text has more columns, however many the terminal has."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Simulate": ("run", "schedulers", "workload", "platform"),
    "Look at runs": ("metrics", "verify", "diff", "gantt", "plot", "occupation"),
    "Answers for centres and their users": ("advise", "quote", "explain", "charges"),
    "Experiments": ("compare", "campaign", "bound", "papers"),
    "With Batsim": ("serve", "engine", "shim"),
}
"""The commands under their headings, in the order in which ``--help`` lists them."""


class _Readable:
    """Help in one column of options, and values checked only where they may need it."""

    help: str | None

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the command line.

        Typer else loads a large package for checks, also for texts, and for options not given.
        """
        _check_less(self.get_params(ctx))  # type: ignore[attr-defined]
        return super().parse_args(ctx, args)  # type: ignore[misc]

    def format_help_text(self, _: Any, formatter: Any) -> None:
        """Write what the command does, and its examples as they are typed."""
        text, _, examples = inspect.cleandoc(self.help or "").partition("\n\n**Examples**\n\n")
        for paragraph in text.split("\n\n"):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(paragraph.replace("`", ""))
        if examples:
            with formatter.section("Examples"):
                for example in examples.split("\n\n"):
                    formatter.write(_example(example, formatter.width))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, and the commands of a group."""
        found: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for each in self.get_params(ctx):  # type: ignore[attr-defined]
            record = each.get_help_record(ctx)
            if record is not None:
                kind = "Arguments" if each.param_type_name == "argument" else "Options"
                name, text = (each.replace("`", "") for each in record)
                # An argument's type says nothing; an option's says what a value looks like.
                name = re.sub(" <.*>", "" if kind == "Arguments" else _value_name, name)
                text = re.sub(r"\bx>=([\d.]+)(?=[];])", r"at least \1", text)
                text = re.sub(r"\b([\d.]+)<=x<=([\d.]+)(?=[];])", r"\1 to \2", text)
                found[kind].append((name, text))
        for title, rows in found.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=26)
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)


def _value_name(kind: re.Match[str]) -> str:
    """Return what the value of an option is called that has no name of its own."""
    names = {"bool": "", "int": " N", "float": " X", "path": " FILE"}
    return names.get(kind[0].strip(" <>"), " TEXT")


class Command(_Readable, TyperCommand):
    """A command."""


class Group(_Readable, TyperGroup):
    """A group of commands, under headings where it has many."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with the first sentence of its help."""
        names = self.list_commands(ctx)
        # The headings are those of the package's own commands, not of groups that share a name.
        of_package = {} if ctx.parent else SECTIONS
        sections = {title: [*filter(names.__contains__, of)] for title, of in of_package.items()}
        listed = [name for of in sections.values() for name in of]
        sections["Further commands" if listed else "Commands"] = [
            name for name in names if name not in listed
        ]
        for title, of in sections.items():
            rows = [(name, _first_sentence(self.commands[name])) for name in of]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _first_sentence(command: Any) -> str:
    """Return what a command does, in full; Typer's own way cuts it."""
    first = inspect.cleandoc(command.help or "").split("\n\n")[0]
    return first.replace("\n", " ").replace("`", "")


def _example(paragraph: str, width: int) -> str:
    """Return an example: what it is for, and its command, which stays fit to be typed."""
    text = " ".join(paragraph.split()).removeprefix("- ").rstrip("`")
    words, _, command = text.rpartition("`")
    words = words.replace("`", "")
    indent = "    " if words else "  "
    # An option stays with its value.
    command = re.sub(r"(?<= )(--?[a-z-]+) (?=[^- ])", r"\1\0", command)
    wrapper = textwrap.TextWrapper(width - 2, indent, f"{indent}  ")
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    lines = wrapper.wrap(command)
    said = textwrap.indent(textwrap.fill(words.rstrip(), width - 2), "  ") + "\n" if words else ""
    return said + " \\\n".join(lines).replace("\0", " ") + "\n"


def _check_less(parameters: Iterable[Any]) -> None:
    for each in parameters:
        # Older versions of Typer have no descriptors, and no such package.
        if hasattr(each, "type_descriptor") and "process_value" not in vars(each):
            each.process_value = partial(_value, each, each.process_value)


def _value(parameter: Any, check: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """Return the value of a parameter, as the check would."""
    if value is None and not parameter.required:
        value = () if parameter.multiple or parameter.nargs == -1 else None
    elif type(value) not in (str, int, float) or (
        type(value) is not parameter.type_descriptor.annotation
    ):
        return check(context, value)
    return parameter.callback(context, parameter, value) if parameter.callback else value
