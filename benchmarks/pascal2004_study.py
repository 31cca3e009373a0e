"""Write the tables of docs/pascal2004.md from the report of a reproduction.

    qops-batsim papers run pascal2004 --out out/pascal2004
    python benchmarks/pascal2004_study.py out/pascal2004/report.json --write docs/pascal2004.md

Each table stands between two comments that name it; without ``--write`` they are printed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

MIXED = "by queue"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    document = json.loads(arguments.report.read_text())
    cases = document["table2"]["cases"]
    tables = {
        "table1": table1(document["table1"]["rows"]),
        "table2": table2(cases),
        "guarantees": guarantees(cases),
        "claims": claims(document["claims"]),
    }
    if arguments.write is None:
        print("\n\n".join(tables.values()))
        return
    text = arguments.write.read_text()
    for name, table in tables.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)"
        text, count = re.subn(pattern, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text, flags=re.S)
        if count != 1:
            raise SystemExit(f"{arguments.write}: no place for {name}")
    arguments.write.write_text(text)


def table1(rows: Iterable[Mapping[str, Any]]) -> str:
    lines = []
    for row in rows:
        paper, difference = row["paper"] or {}, row["difference_percent"] or {}
        original = ", original fields" if "first5000" in row["log"] else ""
        lines.append(
            [
                f"first {row['jobs']:,}{original}",
                f"{row['days']:.1f}",
                *map(number, (row["recorded"], row["nqs"], paper.get("nqs"), row["aroma"])),
                number(paper.get("aroma")),
                percent(difference.get("aroma")),
                f"{row['aroma_to_nqs']:.2f}",
                number(paper.get("aroma_to_nqs")),
                number(row["aroma_cpu_time_field"]),
                number(row["conservative"]),
            ]
        )
    heading = (
        "jobs of the log | days | as recorded | our NQS | paper: NQS | AROMA | paper: AROMA | "
        "difference | AROMA / NQS | paper | AROMA, CPU time field | conservative"
    )
    return markdown(heading, lines)


def table2(cases: Iterable[Mapping[str, Any]]) -> str:
    lines = []
    for case in cases:
        for name in case["wait"]:
            if case["classes"] != MIXED and name != "all":
                continue
            paper = {key: numbers.get(name) for key, numbers in case["paper"].items()}
            lines.append(
                [
                    label(case),
                    name.replace("_", " "),
                    number(case["jobs"][name]),
                    number(case["wait"][name]),
                    number(paper.get("wait")),
                    percent(case["difference_percent"].get("wait", {}).get(name)),
                    f"{case['mapping_ms'][name]:.2f}",
                    f"{case['mapping_p99_ms'][name]:.1f}",
                    number(paper.get("mapping_ms")),
                    number(case["rejected"][name]),
                    number(paper.get("rejected")),
                    f"{case['stretch'][name]:.2f}",
                ]
            )
    heading = (
        "case | class | jobs | wait (s) | paper | difference | mapping (ms) | p99 | paper | "
        "rejects | paper | stretch"
    )
    return markdown(heading, lines)


def guarantees(cases: Iterable[Mapping[str, Any]]) -> str:
    lines = [
        [
            label(case),
            f"{case['prediction_error_s']['max']:.1e}",
            number(case["prediction_error_s"]["first_mean"]),
            number(case["stopped"]),
            number(case["broken_promises"]),
        ]
        for case in cases
    ]
    heading = (
        "case | last prediction, greatest error (s) | first prediction, mean change (s) | stops | "
        "broken guarantees"
    )
    return markdown(heading, lines)


def claims(found: Iterable[Mapping[str, Any]]) -> str:
    lines = [
        [
            claim["text"].replace("|", "/"),
            claim["verdict"],
            f"{claim['value']:.4g}",
            "" if claim["paper"] is None else f"{claim['paper']:.4g}",
        ]
        for claim in found
    ]
    return markdown("claim | verdict | here | paper", lines)


def label(case: Mapping[str, Any]) -> str:
    name: str = case["case"]
    return name if case["classes"] == MIXED else f"{name}, best effort only"


def number(value: float | None) -> str:
    if value is None:
        return ""
    if float(value).is_integer() or abs(value) >= 1000 or abs(value) < 1e-6:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.0f} %"


def markdown(heading: str, lines: Sequence[Sequence[str]]) -> str:
    columns = heading.count("|") + 1
    rows = [heading, "|".join(["---"] * columns), *(" | ".join(line) for line in lines)]
    return "\n".join(f"| {row} |" if "---" not in row else f"|{row}|" for row in rows)


if __name__ == "__main__":
    main()
