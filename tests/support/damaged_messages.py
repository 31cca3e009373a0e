"""Messages with pieces changed, for tests of what reads them."""

from __future__ import annotations

import random


def damaged(text: bytes, rng: random.Random) -> bytes:
    """Return a message with a few bytes or a piece of it changed."""
    made = bytearray(text)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(made) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            made[place : place + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del made[place : place + rng.choice([1, 3, 20])]
        elif kind == 2:
            other = rng.randrange(len(made) + 1)
            made[place:place] = made[other : other + rng.choice([1, 8, 40])]
        elif kind == 3:
            made[place:place] = rng.choice([b"null", b"-1", b"1e999", b"[]", b"{}", b'""', b"NaN"])
        else:
            made = made[:place]
        if not made:
            return b""
    return bytes(made)
