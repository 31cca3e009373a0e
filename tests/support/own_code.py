"""Schedulers of users' own with modules that they import, and distributions that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SCHEDULER = '''"""A scheduler of a user's own."""

from qops_batsim import Easy

{imports}


class Mine(Easy):
    """Orders jobs by what a module says."""

    summary = {value}

    def key(self, job):
        return {value} * job.processors
'''
"""A file with the scheduler ``Mine``, whose order and summary a module decides."""


def scheduler_text(imports: str, value: str) -> str:
    """Return the text of a file whose ``Mine`` orders jobs by ``value`` times their processors."""
    return SCHEDULER.format(imports=imports, value=value).replace(
        f"summary = {value}", f"summary = str({value})"
    )


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, by their names within the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_distribution(
    folder: Path, name: str, version: str, files: Mapping[str, str], **more: str
) -> None:
    """Install a distribution by hand: its files, and what is told of it (``METADATA`` …)."""
    write_files(folder, files)
    told = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "RECORD": "".join(f"{each},,\n" for each in files),
        **{key.replace("__", "."): text for key, text in more.items()},
    }
    write_files(folder, {f"{name}-{version}.dist-info/{key}": told[key] for key in told})
