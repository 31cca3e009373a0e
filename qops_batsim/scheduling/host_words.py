"""Sets of hosts as bits of rows of 64-bit words, for kernels."""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.arrays import Words

WORD_BITS = 64
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


def words_of(hosts: HostSet, words: int) -> Words:
    """Return a set of hosts as a row of so many words."""
    return np.frombuffer(hosts.mask.to_bytes(words * WORD_BITS // 8, "little"), "<u8").astype(
        np.uint64
    )


def hosts_of(words: Words) -> HostSet:
    """Return a row of words as a set of hosts."""
    return HostSet(int.from_bytes(words.astype("<u8").tobytes(), "little"))


@kernel
def bit_count(words: Words) -> int:
    """Return the number of bits set. O(words), and O(1) for each word."""
    total = 0
    for word in words:
        # Add neighbouring bits, then pairs, then nibbles; the product sums the bytes.
        word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
        word = (word & np.uint64(0x3333333333333333)) + (
            (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
        )
        word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        total += int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
    return total


@kernel
def has_host(words: Words, host: int) -> bool:
    """Tell whether a host is in a row. O(1)."""
    return bool((words[host // 64] >> np.uint64(host % 64)) & _ONE)


@kernel
def same_hosts(one: Words, other: Words) -> bool:
    """Whether two rows are the same. O(words)."""
    for word in range(len(one)):  # noqa: SIM110 - all() would make a generator
        if one[word] != other[word]:
            return False
    return True


@kernel
def keep_lowest(words: Words, wanted: int) -> None:
    """Clear all but the ``wanted`` lowest bits that are set. O(bits)."""
    for index in range(len(words)):
        word = words[index]
        kept = _ZERO
        while word != _ZERO and wanted > 0:
            low = word & (~word + _ONE)
            kept |= low
            word ^= low
            wanted -= 1
        words[index] = kept
