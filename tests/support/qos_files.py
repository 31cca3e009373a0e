"""Texts of ``_qos.csv`` for tests."""

from __future__ import annotations


def by_workload(text: str) -> str:
    """Return a ``_qos.csv`` given with full identifiers (``w0!15``) in its first column."""
    header, *rows = text.splitlines()
    told = [row.replace("!", ",", 1) for row in rows]
    return "\n".join([f"workload_name,{header}", *told]) + "\n"
