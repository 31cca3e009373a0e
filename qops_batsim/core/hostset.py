"""Sets of hosts, in the notation of Batsim's allocations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from qops_batsim.errors import InputError, shown
from qops_batsim.limits import MAX_HOST_ID


class HostSet:
    """An immutable set of host identifiers (whole numbers from 0).

    The set is one Python integer whose bit *i* tells whether host *i* is in it,
    so the set operations cost O(hosts / 64) machine operations.

    Its text is Batsim's: hyphenated intervals separated by one space, as in ``"0-3 5"``.
    """

    __slots__ = ("_text", "mask")

    mask: int
    _text: str
    """Unset until it is asked for: sets are made for every job, and few are written."""

    def __init__(self, mask: int = 0) -> None:
        self.mask = mask

    @classmethod
    def of(cls, hosts: Iterable[int]) -> HostSet:
        mask = 0
        for host in hosts:
            mask |= 1 << host
        return cls(mask)

    @classmethod
    def first(cls, count: int) -> HostSet:
        """Return the set of the hosts 0 to ``count - 1``."""
        return cls((1 << count) - 1)

    @classmethod
    def parse(cls, text: str) -> HostSet:
        """Read intervals such as ``"0-3 5"`` (commas are accepted as separators)."""
        return _parsed_before(text) if len(text) <= _LONGEST_KEPT else cls._parsed(text)

    @classmethod
    def _parsed(cls, text: str) -> HostSet:
        return cls(_mask_of(_intervals_in(text)))

    def lowest(self, count: int) -> HostSet:
        """Return the ``count`` lowest hosts of this set; ValueError if it has fewer.

        O(intervals) operations on masks.

        >>> HostSet.parse("0-3 5-9").lowest(5)
        HostSet.parse('0-3 5')
        """
        held = self.mask.bit_count()
        if held > count:
            return HostSet(lowest_bits(self.mask, count))
        if held == count:
            return self
        raise ValueError(f"{count} hosts were asked for, but only {held} are in the set")

    def intervals(self) -> Iterator[tuple[int, int]]:
        """Yield ``(first, last)`` of every maximal interval of the set, in ascending order."""
        mask = self.mask
        if mask.bit_length() > _WIDE:
            # Each step below would copy the whole mask.
            for run in re.finditer("1+", f"{mask:b}"[::-1]):
                yield run.start(), run.end() - 1
            return
        while mask:
            low = mask & -mask
            hosts = mask & ~(mask + low)
            yield low.bit_length() - 1, hosts.bit_length() - 1
            mask ^= hosts

    def __or__(self, other: HostSet) -> HostSet:
        return HostSet(self.mask | other.mask)

    def __and__(self, other: HostSet) -> HostSet:
        return HostSet(self.mask & other.mask)

    def __sub__(self, other: HostSet) -> HostSet:
        return HostSet(self.mask & ~other.mask)

    def __contains__(self, host: int) -> bool:
        return bool(self.mask >> host & 1)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __iter__(self) -> Iterator[int]:
        for first, last in self.intervals():
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostSet) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(self.mask)

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            self._text = " ".join(
                str(first) if first == last else f"{first}-{last}"
                for first, last in self.intervals()
            )
            return self._text

    def __repr__(self) -> str:
        return f"HostSet.parse({str(self)!r})"


class WrittenHosts(HostSet):
    """A set of hosts stored as its text, which takes less memory on a large machine."""

    __slots__ = ()

    def __init__(self, hosts: HostSet) -> None:
        self._text = str(hosts)

    @property
    def mask(self) -> int:  # type: ignore[override]
        return _mask_of(_intervals_in(self._text))

    def intervals(self) -> Iterator[tuple[int, int]]:
        return iter(_intervals_in(self._text))


def _intervals_in(text: str) -> list[tuple[int, int]]:
    """Return the intervals (first and last host) that a text such as ``"0-3 5"`` names."""
    if len(text) > _LONGEST:
        raise InputError(
            f"host set {shown(text)}: has {len(text)} letters; no set of hosts needs more "
            f"than {_LONGEST}"
        )

    intervals = []
    for part in text.replace(",", " ").split():
        first, hyphen, last = part.partition("-")
        if not (_is_id(first) and (_is_id(last) if hyphen else True)):
            raise InputError(
                f"host set {shown(text)}: {shown(part)} is not a host id or FIRST-LAST"
            )

        low = int(first)
        high = int(last or first)
        if high < low:
            raise InputError(f"host set {shown(text)}: {shown(part)} ends before it starts")
        if high > MAX_HOST_ID:
            raise InputError(
                f"host set {shown(text)}: {high} is above {MAX_HOST_ID}, the largest host id"
            )

        intervals.append((low, high))

    return intervals


_LONGEST_KEPT = 200
"""Longest text of a set that is cached."""

_LONGEST = 4 * MAX_HOST_ID
"""Letters of a set: every other host up to the largest takes fewer."""

_FEW = 64
_WIDE = 1 << 14
"""Most intervals, and hosts, at which sets are read and written interval by interval."""


@lru_cache(maxsize=1024)
def _parsed_before(text: str) -> HostSet:
    """Parse a set of hosts with a cache, since allocations of the lowest free hosts repeat."""
    return HostSet._parsed(text)


def lowest_bits(mask: int, count: int) -> int:
    """Return the ``count`` lowest bits set in a mask that has at least as many. O(intervals)."""
    taken = 0
    while count:
        low = mask & -mask
        # Adding the lowest bit carries through the lowest run of ones.
        run = mask & ~(mask + low)
        length = run.bit_count()
        if length >= count:
            return taken | (((1 << count) - 1) * low)
        taken |= run
        mask ^= run
        count -= length
    return taken


def _mask_of(intervals: list[tuple[int, int]]) -> int:
    """Return the integer whose bit *i* is set for each host *i* in these intervals (both ends
    included).
    """
    mask = 0
    if len(intervals) <= _FEW:
        for low, high in intervals:
            mask |= ((1 << (high - low + 1)) - 1) << low
        return mask

    # Each would copy the whole mask: here each digit is set once.
    digits = bytearray(b"0") * (max(high for _, high in intervals) + 1)
    begin = 0
    for low, high in sorted(intervals):
        begin = max(begin, low)
        if begin <= high:
            digits[begin : high + 1] = b"1" * (high + 1 - begin)
            begin = high + 1

    digits.reverse()
    return int(digits, 2)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
