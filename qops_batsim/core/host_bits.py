"""Sets of hosts as bits in 64-bit words, for profiles of concrete hosts."""

from __future__ import annotations

from array import array

# Written in an expression, such numbers would be Python objects where this is compiled.
_ONE = 1
_ONES = 0xFFFFFFFFFFFFFFFF
_PAIRS = 0x5555555555555555
_FOURS = 0x3333333333333333
_EIGHTS = 0x0F0F0F0F0F0F0F0F
_SUMS = 0x0101010101010101


def bit_count(word: int) -> int:
    """Return the number of set bits in a 64-bit word. O(1)."""
    # Add neighbouring bits, then pairs, then nibbles; the product sums the bytes.
    word = word - ((word >> 1) & _PAIRS)
    word = (word & _FOURS) + ((word >> 2) & _FOURS)
    word = (word + (word >> 4)) & _EIGHTS
    return ((word * _SUMS) >> 56) & 0xFF


class HostBits:
    """A mutable set of hosts, kept as bits in 64-bit words, for a machine of ``hosts`` hosts."""

    def __init__(self, hosts: int) -> None:
        self.size = (hosts + 63) >> 6
        self.words = array("Q", bytes(8 * self.size))

    @classmethod
    def of(cls, mask: int, hosts: int) -> HostBits:
        """Return the set of the hosts whose bits are 1 in ``mask``, of a machine of ``hosts``."""
        made = cls(hosts)
        made.set_mask(mask)
        return made

    def set_mask(self, mask: int) -> None:
        """Replace the set's contents by the hosts whose bits are 1 in ``mask``. O(hosts)."""
        self.words = array("Q", mask.to_bytes(8 * self.size, "little"))

    def mask(self) -> int:
        """Return the set as an integer whose bit *i* is 1 if host *i* is in the set. O(hosts)."""
        return int.from_bytes(bytes(self.words), "little")

    def fill(self) -> None:
        """Set all bits of all words, also those beyond the machine's last host. O(hosts)."""
        for word in range(self.size):
            self.words[word] = _ONES

    def copy_from(self, other: HostBits) -> None:
        """Replace this set's contents by those of another set of the same machine. O(hosts)."""
        for word in range(self.size):
            self.words[word] = other.words[word]

    def add(self, other: HostBits) -> None:
        """Add the hosts of another set to this one. O(hosts)."""
        for word in range(self.size):
            self.words[word] |= other.words[word]

    def remove(self, other: HostBits) -> None:
        """Remove the hosts of another set from this one. O(hosts)."""
        for word in range(self.size):
            self.words[word] &= ~other.words[word]

    def first_from(self, host: int, inside: bool) -> int:
        """Return the first host not below ``host`` that is in the set, or (``inside`` False) that
        is not. O(hosts).

        Where there is none, that is the first number that the words have no bit for.
        """
        word = host >> 6
        if word >= self.size:
            return self.size << 6
        flipped = 0 if inside else _ONES
        left = (self.words[word] ^ flipped) >> (host & 63) << (host & 63)
        while left == 0:
            word += 1
            if word == self.size:
                return self.size << 6
            left = self.words[word] ^ flipped
        return (word << 6) + bit_count((left ^ (left - 1)) >> 1)

    def clear(self) -> None:
        """Remove all hosts from the set. O(hosts)."""
        for word in range(self.size):
            self.words[word] = 0

    def keep_common(self, other: HostBits) -> None:
        """Remove the hosts that are not in the other set. O(hosts)."""
        for word in range(self.size):
            self.words[word] &= other.words[word]

    def add_common(self, one: HostBits, other: HostBits) -> None:
        """Add the hosts that are in both of two other sets. O(hosts)."""
        for word in range(self.size):
            self.words[word] |= one.words[word] & other.words[word]

    def shares(self, other: HostBits) -> bool:
        """Return whether this set and another one have a host in common. O(hosts)."""
        for word in range(self.size):  # noqa: SIM110 - any() would make a generator
            if self.words[word] & other.words[word]:
                return True
        return False

    def move_interval(self, first: int, hosts: int, other: HostBits) -> None:
        """Move ``hosts`` consecutive hosts, the lowest ``first``, to another set. O(hosts / 64)."""
        if hosts <= 0:
            return
        word = first >> 6
        last = (first + hosts - 1) >> 6
        moved = _ONES >> (first & 63) << (first & 63)
        while word < last:
            self.words[word] &= ~moved
            other.words[word] |= moved
            moved = _ONES
            word += 1
        moved &= _ONES >> (63 - (first + hosts - 1 & 63))
        self.words[word] &= ~moved
        other.words[word] |= moved

    def count(self) -> int:
        """Return the number of hosts in the set. O(hosts)."""
        total = 0
        for word in range(self.size):
            total += bit_count(self.words[word])
        return total

    def equals(self, other: HostBits) -> bool:
        """Return whether this set and another one hold the same hosts. O(hosts)."""
        for word in range(self.size):  # noqa: SIM110 - all() would make a generator
            if self.words[word] != other.words[word]:
                return False
        return True

    def is_within(self, other: HostBits) -> bool:
        """Return whether all hosts of this set are also in another one. O(hosts)."""
        for word in range(self.size):  # noqa: SIM110 - all() would make a generator
            if self.words[word] & ~other.words[word]:
                return False
        return True

    def keep_lowest(self, wanted: int) -> None:
        """Keep the ``wanted`` lowest hosts, remove the others. O(hosts + wanted)."""
        for word in range(self.size):
            left = self.words[word]
            kept = 0
            while left != 0 and wanted > 0:
                rest = left & (left - 1)
                kept |= left ^ rest
                left = rest
                wanted -= 1
            self.words[word] = kept
