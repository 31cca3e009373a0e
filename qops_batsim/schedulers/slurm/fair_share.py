"""Fair Tree: the fair-share factor of users from shares and decayed usage, as in Slurm."""

from __future__ import annotations

import math
from collections.abc import Mapping

_INFINITY = math.inf


class Account:
    """An account, with the shares and usage of its users together.

    Attributes
    ----------
    number
        Its place in the order of appearance.
    shares, level
        Its shares, and its level factor.
    user_shares, usage
        Sums over its users: shares, and decayed usage (processor-seconds).
    """

    def __init__(self, number: int, shares: float) -> None:
        self.number = number
        self.shares = shares
        self.level = 0.0
        self.user_shares = 0.0
        self.usage = 0.0


class ShareHolder:
    """A user of an account.

    Attributes
    ----------
    shares, usage
        Shares, and decayed usage (processor-seconds).
    level, factor
        Level factor, and fair-share factor, from 0 to 1.
    """

    def __init__(self, number: int, account: Account, shares: float) -> None:
        self.number = number
        self.account = account
        self.shares = shares
        self.usage = 0.0
        self.level = 0.0
        self.factor = 1.0


def level_factor(shares: float, all_shares: float, usage: float, all_usage: float) -> float:
    """Return the level factor: part of the shares over part of the usage; above 1 if less was used
    than is due. O(1).
    """
    if shares == 0:
        return 0.0
    if usage == 0 or all_usage == 0:
        return _INFINITY
    return (shares / all_shares) / (usage / all_usage)


def comes_before(user: ShareHolder, other: ShareHolder) -> bool:
    """Return whether a user ranks before another one in the Fair Tree: by account, then within it.
    O(1).
    """
    account = user.account
    that = other.account
    if account is that:
        return user.level > other.level or (
            user.level == other.level and user.number < other.number
        )
    return account.level > that.level or (
        account.level == that.level and account.number < that.number
    )


class FairTree:
    """The users and accounts seen so far, ranked by shares and usage as in Slurm's Fair Tree.

    Parameters
    ----------
    shares
        Of accounts and, as ``ACCOUNT/USER``, of their users; who is not named has 1.
    """

    def __init__(self, shares: Mapping[str, float]) -> None:
        self.shares = dict(shares)
        self.users: list[ShareHolder] = []
        self.accounts: list[Account] = []
        self.ranked: list[ShareHolder] = []
        self.by_name: dict[tuple[str, str], ShareHolder] = {}
        self.accounts_by_name: dict[str, Account] = {}
        for name in shares:
            account, is_user, user = name.partition("/")
            if is_user:
                self.user(account, user)

    def user(self, account: str, name: str) -> ShareHolder:
        """Return the user with this name in an account; one not seen before is added."""
        known = self.by_name.get((account, name))
        if known is not None:
            return known

        group = self.accounts_by_name.get(account)
        if group is None:
            group = Account(len(self.accounts), self.shares.get(account, 1.0))
            self.accounts_by_name[account] = group
            self.accounts.append(group)

        user = ShareHolder(len(self.users), group, self.shares.get(f"{account}/{name}", 1.0))
        self.by_name[account, name] = user
        self.users.append(user)
        self.ranked.append(user)
        return user

    def fade(self, factor: float) -> None:
        """Decay the usage of all users by a factor. O(users)."""
        for user in self.users:
            user.usage *= factor

    def set_factors(self) -> None:
        """Rank all users by Fair Tree, and set their fair-share factors. O(users) if sorted.

        Equal neighbours have one rank. Slurm's own user ``root``, next to the accounts, comes
        first; as in Slurm 22.05, users of accounts with equal factors are not ranked together, only
        the first of an account has the rank of the last one before.
        """
        self.set_levels()
        # Few change places from one calculation to the next.
        ranked = self.ranked
        known = len(self.users)
        for last in range(known):
            user = ranked[last]
            place = last
            while place > 0:
                earlier = ranked[place - 1]
                if not comes_before(user, earlier):
                    break
                ranked[place] = earlier
                place -= 1
            ranked[place] = user

        # One rank more than there are users, for root.
        rank = known + 1
        without_ties = known
        before = _INFINITY  # Level of the account before, at first of root.
        for place in range(known):
            user = ranked[place]
            earlier = ranked[place - 1] if place > 0 else user
            if place == 0 or user.account is not earlier.account:
                is_tied = user.account.level == before
                before = user.account.level
            else:
                is_tied = user.level == earlier.level

            if not is_tied:
                rank = without_ties
            user.factor = float(rank) / (known + 1)
            without_ties -= 1

    def set_levels(self) -> None:
        """Compute the level factors of accounts and users. O(users)."""
        for account in self.accounts:
            account.user_shares = 0.0
            account.usage = 0.0
        all_used = 0.0
        for user in self.users:
            account = user.account
            account.user_shares += user.shares
            account.usage += user.usage
            all_used += user.usage

        all_shares = 1.0  # Those of root, next to the accounts.
        for account in self.accounts:
            all_shares += account.shares
        for account in self.accounts:
            account.level = level_factor(account.shares, all_shares, account.usage, all_used)
        for user in self.users:
            account = user.account
            user.level = level_factor(user.shares, account.user_shares, user.usage, account.usage)
