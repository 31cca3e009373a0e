"""Formats of logs, told by their content."""

from __future__ import annotations

import re

PBS_LINE = re.compile(r"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);([A-Za-z]{1,2});([^;]*);(.*)")
"""Date, type, job and fields of a record of PBS."""

_BEGIN = 1 << 16


def delimiter_of(header: str) -> str:
    """Return what is behind the first name of a header, as ``sacct --delimiter`` sets it."""
    match = re.match(r"\s*\w+\s*([\t!-/:-@\[-^`{-~])", header, re.ASCII)
    return match[1] if match else "|"


def log_format(content: bytes) -> str:
    """Return ``sacct``, ``json`` (of sacct), ``pbs``, ``batsim`` or, for all else, ``swf``."""
    begin = content[:_BEGIN].removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.startswith(b"{"):
        return "json" if b'"nb_res"' not in content and b'"job_id"' in content else "batsim"
    line = begin.partition(b"\n")[0].decode("latin-1")
    names = {name.strip().lower() for name in line.split(delimiter_of(line))}
    if names & {"jobid", "jobidraw"} and len(names) > 1:
        return "sacct"
    return "pbs" if PBS_LINE.match(line) else "swf"


def command_for(kind: str) -> str:
    """Return the command that converts a log of a format."""
    return f"workload from-{'sacct' if kind == 'json' else kind}"
