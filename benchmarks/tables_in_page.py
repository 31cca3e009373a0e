"""Putting generated tables into a page of the documentation, between two marks."""

from __future__ import annotations

from pathlib import Path

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def print_or_put(text: str, page: Path | None) -> None:
    """Print a text, or let it replace what stands between the marks of a page."""
    if page is None:
        print(text)
        return
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page}: the marks {BEGIN} and {END} are expected")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
