"""Damaging the text of a file: bytes, lines, numbers, fields, nesting, encodings, gzip."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from typing import Any

NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
QUOTED = re.compile(rb'"[^"\n]*"')

NUMBERS = [
    *("-1", "0", "-0.0", "1", "0.5", "-1.5", "1e-6", "1e-320", "5e-324", "1e9", "1e12", "1.1e12"),
    *("1e17", "1e300", "1e308", "1e309", "1e400", "-1e400", "2147483647", "2147483648"),
    *("4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775809", "18446744073709551616", "1000000000", "1000000001", "10000000"),
    *("NaN", "nan", "Infinity", "inf", "-inf", "null", "true", '"7"', "[]", "{}", "[1]", '""'),
    *("0x10", "1_000", "1,5", "01", "+1", ".5", "5.", "1e", "--1", "١٢", "", "1 2", "9" * 401),
    *("-" + "9" * 401, "9" * 5000, "0." + "1" * 5000, "1e999999999999"),
]
"""What stands in place of a number."""

LETTERS = [
    *("", " ", "a b", "a,b", 'a"b', "a\nb", "a\rb", "a\tb", "a\x00b", "\x1b[31mred\x1b[0m", "\x7f"),
    *(
        "\u202eabc",
        "\ufeff",
        "\u2028",
        "é",
        "e\u0301",
        "\U0001d518",
        "../../etc/passwd",
        "/dev/null",
        "-",
        "--",
    ),
    *("w0!1", "w0!w0!1", "!", "0-3", "3-0", "0 1 2", "0-99999999999", "null", "NaN", "x" * 300),
    *(
        "x" * 100_000,
        "%s%n",
        "{0}",
        "[bold]",
        "$HOME",
        "a;b",
        "a|b",
        "#",
        "//",
        "<x>",
        "&amp;",
        "]]>",
    ),
]
"""What stands in place of a text."""


def mutated(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return a damaged copy, and what was done to it."""
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        mutate = rng.choices(list(MUTATIONS), list(MUTATIONS.values()))[0]
        content = mutate(content, rng)
        done.append(mutate.__name__)
    return content, ", ".join(done)


def flipped(content: bytes, rng: random.Random) -> bytes:
    """Other bytes in a few places."""
    found = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if found:
            found[rng.randrange(len(found))] = rng.choice([rng.randrange(256), 0, 0xFF, 10, 13, 34])
    return bytes(found)


def truncated(content: bytes, rng: random.Random) -> bytes:
    """Only what stands in front of some byte."""
    return content[: rng.choice([0, 1, 2, rng.randrange(len(content) + 1), len(content) - 1])]


def cut(content: bytes, rng: random.Random) -> bytes:
    """Without a few bytes in the middle."""
    place = rng.randrange(len(content) + 1)
    return content[:place] + content[place + rng.choice([1, 2, 10, 100]) :]


def inserted(content: bytes, rng: random.Random) -> bytes:
    """With odd bytes in the middle."""
    odd = [
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\x00",
        b"\x1b[2J",
        b"\xef\xbb\xbf",
        b"\r",
        b"\n",
        b'"',
    ]
    odd += [
        b",",
        b"{",
        b"[",
        b"<",
        b"&#0;",
        b"\x1f\x8b",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b" " * 65,
    ]
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(odd) + content[place:]


def lines(content: bytes, rng: random.Random) -> bytes:
    """Lines that are missing, doubled, in another order, or joined."""
    found = content.split(b"\n")
    place, other = rng.randrange(len(found)), rng.randrange(len(found))
    what = rng.randrange(6)
    if what == 0:
        del found[place]
    elif what == 1:
        found.insert(other, found[place])
    elif what == 2:
        found[place], found[other] = found[other], found[place]
    elif what == 3:
        found[place] = found[place] + found[other]
    elif what == 4:
        rng.shuffle(found)
    else:
        found.insert(place, b"")
    return b"\n".join(found)


def line_ends(content: bytes, rng: random.Random) -> bytes:
    """Ends of lines as on other systems, in all lines or one, or a byte order mark."""
    end = rng.choice([b"\r", b"\r\n", b"\n\n", b"\x0b", b"\xe2\x80\xa8", b"\x00"])
    if rng.random() < 0.2:
        return b"\xef\xbb\xbf" + content
    return content.replace(b"\n", end, rng.choice([-1, 1]))


def number(content: bytes, rng: random.Random) -> bytes:
    """Another number, or none, in place of one."""
    return _replaced(content, NUMBER, rng.choice(NUMBERS).encode(), rng)


def quoted(content: bytes, rng: random.Random) -> bytes:
    """Another text in place of a quoted one."""
    text = rng.choice(LETTERS)
    return _replaced(content, QUOTED, rng.choice([f'"{text}"', json.dumps(text)]).encode(), rng)


def _replaced(content: bytes, pattern: re.Pattern[bytes], by: bytes, rng: random.Random) -> bytes:
    found = list(pattern.finditer(content))
    if not found:
        return flipped(content, rng)
    for each in sorted(rng.sample(found, min(len(found), rng.choice([1, 1, 3]))), key=_start)[::-1]:
        content = content[: each.start()] + by + content[each.end() :]
    return content


def _start(found: re.Match[bytes]) -> int:
    return found.start()


def cell(content: bytes, rng: random.Random) -> bytes:
    """Another text in a cell of a table, or a cell more, or less."""
    found = content.split(b"\n")
    place = rng.choice([0, rng.randrange(len(found))])
    separator = b"," if b"," in found[place] else b" "
    cells = found[place].split(separator)
    column = rng.randrange(len(cells))
    what = rng.randrange(4)
    if what == 0:
        cells[column] = rng.choice(rng.choice([NUMBERS, LETTERS])).encode()
    elif what == 1:
        del cells[column]
    elif what == 2:
        cells.insert(column, rng.choice(cells))
    else:
        other = rng.randrange(len(cells))
        cells[column], cells[other] = cells[other], cells[column]
    found[place] = separator.join(cells)
    return b"\n".join(found)


def node(content: bytes, rng: random.Random) -> bytes:
    """Another value in a JSON document, in its lines, or a field less, or more."""
    found = content.split(b"\n")
    for place in [None, rng.randrange(len(found))]:
        text = content if place is None else found[place]
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        holder = {"all": document}
        _change(holder, rng)
        text = json.dumps(holder.get("all")).encode()
        if place is None:
            return text
        found[place] = text
        return b"\n".join(found)
    return number(content, rng)


def _change(holder: dict[str, Any], rng: random.Random) -> None:
    places: list[tuple[Any, Any]] = []
    stack: list[Any] = [holder]
    while stack:
        each = stack.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each))
        for key in keys:
            places.append((each, key))
            if isinstance(each[key], (dict, list)):
                stack.append(each[key])
    # Rare fields as often as those of every job.
    by_name: dict[Any, list[tuple[Any, Any]]] = {}
    for inside, key in places:
        by_name.setdefault(key if isinstance(inside, dict) else "of a list", []).append(
            (inside, key)
        )
    inside, key = rng.choice(by_name[rng.choice(list(by_name))])
    what = rng.randrange(6)
    if what <= 2:
        inside[key] = _value(rng)
    elif what == 3 and inside is not holder:
        del inside[key]
    elif what == 4 and isinstance(inside, dict):
        inside[rng.choice(LETTERS)] = inside[key]
    else:
        inside[key] = [inside[key]] if rng.random() < 0.5 else {"type": inside[key]}


def _value(rng: random.Random) -> Any:
    deep: Any = 1
    for _ in range(rng.choice([2, 50, 900])):
        deep = [deep]
    numbers = [-1, 0, 0.5, 1e300, 1e12, 1.1e12, 2**31, 2**63, 2**64, 10**400, 1e-320, 10**9, 10**7]
    others = [None, True, [], {}, [1, 2], {"a": 1}, deep, float("nan"), float("inf"), "7", "1e3"]
    return rng.choice([rng.choice(numbers), rng.choice(others), rng.choice(LETTERS)])


def attribute(content: bytes, rng: random.Random) -> bytes:
    """Another value of an attribute in XML, or an element of another name."""
    odd = [
        "-1",
        "0",
        "1e400",
        "NaN",
        "100Mf",
        "100XBps",
        "0-999999999",
        "5-2",
        "0-3,7",
        "",
        "1s",
        "-1s",
    ]
    odd += [
        "SHARED",
        "FATPIPE",
        "SPLITDUPLEX",
        "WIFI",
        "Full",
        "Floyd",
        "None",
        "9" * 401,
        "1e300Gf",
    ]
    value = rng.choice([rng.choice(odd), rng.choice(LETTERS)])
    if rng.random() < 0.2:
        name = rng.choice([b"<zone ", b"<host ", b"<cluster ", b"<prop ", b"<x ", b"<!DOCTYPE "])
        return _replaced(content, re.compile(rb"<\w+ "), name, rng)
    return _replaced(content, QUOTED, b'"' + value.encode() + b'"', rng)


def nested(content: bytes, rng: random.Random) -> bytes:
    """Within very many brackets, elements or quotes."""
    depth = rng.choice([10, 1_000, 100_000])
    left, right = rng.choice(
        [(b"[", b"]"), (b'{"a":', b"}"), (b"<zone>", b"</zone>"), (b'"', b'"')]
    )
    return left * depth + content + right * rng.choice([depth, 0])


def compressed(content: bytes, rng: random.Random) -> bytes:
    """As gzip, whole, damaged, cut off, twice, or with more behind it."""
    found = gzip.compress(content, 1, mtime=0)
    what = rng.randrange(6)
    if what == 0:
        return flipped(found, rng)
    if what == 1:
        return found[: rng.randrange(len(found))]
    if what == 2:
        return gzip.compress(found, 1, mtime=0)
    if what == 3:
        return found + rng.choice([b"x", found, b"\x00" * 10, found[:20]])
    if what == 4 and rng.random() < 0.02:
        filler = rng.choice([b"\n", b" ", b"[", b"0", b"1 "])
        return gzip.compress(content + filler * rng.choice([10_000_000, 60_000_000]), 1, mtime=0)
    return found


MUTATIONS: dict[Callable[[bytes, random.Random], bytes], int] = {
    flipped: 3,
    truncated: 1,
    cut: 2,
    inserted: 2,
    lines: 3,
    line_ends: 1,
    number: 6,
    quoted: 2,
    cell: 3,
    node: 6,
    attribute: 2,
    nested: 1,
    compressed: 1,
}
"""What is done, and how often."""
