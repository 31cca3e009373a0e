"""What format a log is in, told by its content."""

from __future__ import annotations

import re

PBS_LINE = re.compile(r"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);([A-Za-z]{1,2});([^;]*);(.*)")
"""Date, type, job and fields of a record of PBS."""

_BEGIN = 1 << 16


def log_format(content: bytes) -> str:
    """Return ``sacct``, ``json`` (of sacct), ``pbs``, ``batsim`` or, for all else, ``swf``."""
    begin = content[:_BEGIN].removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.startswith(b"{"):
        return "json" if b'"nb_res"' not in content and b'"job_id"' in content else "batsim"
    line = begin.partition(b"\n")[0]
    names = {name.strip().lower() for name in re.split(rb"[|,;\t]", line)}
    if names & {b"jobid", b"jobidraw"} and len(names) > 1:
        return "sacct"
    return "pbs" if PBS_LINE.match(line.decode("latin-1")) else "swf"


def command_for(kind: str) -> str:
    """Return the command that converts a log of a format."""
    return f"workload from-{'sacct' if kind == 'json' else kind}"
