"""Fair Tree: the fair-share factor of users from shares and decayed usage, as in Slurm."""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Ints
from qops_batsim.scheduling.slurm.book import (
    ACCOUNT_LEVEL,
    ACCOUNT_SHARES,
    ACCOUNT_USAGE,
    RUNNING,
    USER_LEVEL,
    USERS,
    Book,
    Rules,
)


@kernel
def level_factor(shares: float, all_shares: float, usage: float, all_usage: float) -> float:
    """Return a share over the part of the usage: above 1, if less was used than is due. O(1)."""
    if shares == 0:
        return 0.0
    if usage == 0 or all_usage == 0:
        return np.inf
    return (shares / all_shares) / (usage / all_usage)


@kernel
def set_factors(book: Book) -> None:
    """Rank the users: accounts by level factor, and inside each its users. O(users), if in order.

    Equal neighbours have one rank. Slurm's own user ``root``, beside the accounts, comes first; as
    in Slurm 22.05, users of accounts with equal factors are not ranked together, only the first
    of an account has the rank of the last one before.
    """
    levels, order, known = book.levels, book.order, book.counts[USERS]
    set_levels(book)
    for last in range(known):
        user, place = order[last], last
        while place > 0 and comes_before(book, user, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = user
    rank, without_ties, before, before_account = known + 1, known, np.inf, -1
    for place in range(known):
        user = order[place]
        account = book.accounts[user]
        if account != before_account:
            is_tied = levels[ACCOUNT_LEVEL, account] == before
            before, before_account = levels[ACCOUNT_LEVEL, account], account
        else:
            is_tied = levels[USER_LEVEL, user] == levels[USER_LEVEL, order[place - 1]]
        if not is_tied:
            rank = without_ties
        book.factors[user] = rank / (known + 1)
        without_ties -= 1


@kernel
def set_levels(book: Book) -> None:
    """Set the level factors of accounts and users. O(users)."""
    levels, known, all_shares, all_used = book.levels, book.counts[USERS], 1.0, 0.0
    for account in range(known):
        levels[ACCOUNT_SHARES, account] = levels[ACCOUNT_USAGE, account] = 0.0
    accounts = 0
    for user in range(known):
        account = book.accounts[user]
        accounts = max(accounts, account + 1)
        levels[ACCOUNT_SHARES, account] += book.user_shares[user]
        levels[ACCOUNT_USAGE, account] += book.usage[user]
        all_used += book.usage[user]
    for account in range(accounts):
        all_shares += book.account_shares[account]
    for account in range(accounts):
        levels[ACCOUNT_LEVEL, account] = level_factor(
            book.account_shares[account], all_shares, levels[ACCOUNT_USAGE, account], all_used
        )
    for user in range(known):
        account = book.accounts[user]
        shares, used = levels[ACCOUNT_SHARES, account], levels[ACCOUNT_USAGE, account]
        levels[USER_LEVEL, user] = level_factor(
            book.user_shares[user], shares, book.usage[user], used
        )


@kernel
def comes_before(book: Book, user: int, other: int) -> bool:
    """Tell whether a user is ranked before another one. O(1)."""
    levels, account, that = book.levels, book.accounts[user], book.accounts[other]
    if account == that:
        level, than = levels[USER_LEVEL, user], levels[USER_LEVEL, other]
        return bool(level > than or (level == than and user < other))
    level, than = levels[ACCOUNT_LEVEL, account], levels[ACCOUNT_LEVEL, that]
    return bool(level > than or (level == than and account < that))


@kernel
def charge(rules: Rules, processors: Ints, book: Book, place: int, until: float) -> None:
    """Add what a running job has used since it was charged last, decayed. O(1)."""
    slot, seconds = book.run_slots[place], until - book.run_starts[place]
    if seconds > 0:
        used = seconds * rules.decay**seconds * processors[slot]
        book.usage[book.users[slot]] += used
        book.run_starts[place] = until


@kernel
def fade(rules: Rules, processors: Ints, book: Book, since: float, until: float) -> None:
    """Let usage fade over a period, then charge the running jobs. O(users + running)."""
    factor = rules.decay ** (until - since)
    for user in range(book.counts[USERS]):
        book.usage[user] *= factor
    for index in range(book.counts[RUNNING]):
        charge(rules, processors, book, book.run_places[index], until)


@kernel
def fade_often(rules: Rules, processors: Ints, book: Book, periods: float, until: float) -> None:
    """Let usage fade over so many whole periods of the same running jobs. O(users + running).

    As :func:`fade` after each of them; what a job uses in the periods is a geometric series.
    """
    factor = rules.decay**rules.calc_period
    left = factor**periods
    weight = periods if factor == 1.0 else (1.0 - left) / (1.0 - factor)
    for user in range(book.counts[USERS]):
        book.usage[user] *= left
    for index in range(book.counts[RUNNING]):
        place = book.run_places[index]
        slot = book.run_slots[place]
        used = rules.calc_period * factor * processors[slot]
        book.usage[book.users[slot]] += used * weight
        book.run_starts[place] = until
