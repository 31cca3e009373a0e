"""Users who react are counted by three measures, and liars learn whether it pays."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from studies.reacting_users import __main__ as study
from support.users import BY_SLACK, batch, crowd, only, reacted, user

CROWD = crowd(
    user("ann", batch((0.0, 4, 100.0))),
    user("bob", batch((0.0, 2, 200.0)), since=10.0),
    user("cid", batch((0.0, 4, 50.0)), since=20.0),
    deadlines=BY_SLACK,
)
"""Four processors; everybody needs a job 100 s after it could have ended.

FCFS:  ann ann ann                      done at 100, needed by 200
       ann ann ann
                   bob bob bob          done at 300, needed by 310
                               cid cid  done at 350, needed by 170
       0          100         300   350
QoPS refuses cid, who gives up.
"""


def test_wishes_are_counted_by_share_by_number_and_by_work() -> None:
    capacity = 4 * 350.0
    late = study.counted(reacted(CROWD).wishes, capacity)
    assert late == (pytest.approx(200 / 3), 2, pytest.approx(100 * 800 / 1400), 3, 0.0)
    leaving = msgspec.structs.replace(CROWD, reactions=only("leave"))
    refused = study.counted(reacted(leaving, "qops").wishes, capacity)
    assert refused[:4] == late[:4]
    # Of 1,000 processor-seconds wanted, cid's 200 are lost; what was given up counts once.
    assert refused.lost == pytest.approx(20.0)
    # Ann alone: all wishes are met, but fewer, and half of the work.
    alone = msgspec.structs.replace(CROWD, users=CROWD.users[:1])
    one = study.counted(reacted(alone).wishes, capacity)
    assert study.less(one, refused) == pytest.approx((100 / 3, -50.0, -100 * 400 / 1400))


@pytest.mark.parametrize(
    ("got_by_lies", "who"), [(-0.1, ""), (0.0, ""), (0.1, "abcd"), (None, "b")]
)
def test_liars_go_on_where_it_pays(got_by_lies: float | None, who: str) -> None:
    def play(number: int, liars: frozenset[str]) -> Mapping[str, float]:
        more = {name: 0.1 if name == "b" else -0.1 for name in "abcd"}
        return {
            name: 0.5 + (name in liars) * (more[name] if got_by_lies is None else got_by_lies)
            for name in "abcd"
        }

    first, second, *others = study.learn("abcd", 5, play)
    assert (set(first), set(second)) == ({"a", "c"}, {"b", "d"})
    assert [set(each) for each in others] == [set(who)] * 3


def test_who_has_not_seen_both_is_honest() -> None:
    assert study.learn("ab", 4, lambda number, liars: {"a": 1.0 if number == 1 else 0.0})[2:] == [
        frozenset("a"),
        frozenset("a"),
    ]
    assert not study.learn("ab", 3, lambda number, liars: {})[2]


@pytest.mark.parametrize("price", [0.0, 0.5])
def test_liars_who_learn_stop_where_lying_does_not_pay(price: float) -> None:
    # On a machine for both, urgency changes nothing: a lie costs its price, and gets nothing.
    users = crowd(
        user("ann", batch((0.0, 1, 100.0))),
        user("bob", batch((0.0, 1, 100.0)), since=10.0),
        deadlines=BY_SLACK,
    )
    shown: list[Mapping[str, float]] = []

    def play(number: int, liars: frozenset[str]) -> Mapping[str, float]:
        own = [msgspec.structs.replace(each, lies=each.name in liars) for each in users.users]
        changed = msgspec.structs.replace(users, users=tuple(own))
        shown.append(study.nets(study.outcome_of("qops", changed, {}, price=price), price))
        return shown[-1]

    assert not any(study.learn(["ann", "bob"], 4, play)[2:])
    # Half of the time needed is left. A lie asks for the most worth: sqrt(0.5 * 100 * 200) = 100 s,
    # but 110 at least; it pays 0.5 * (100 / 110 - 100 / 200) more.
    liar = 0.5 - price * (100 / 110 - 100 / 200)
    assert shown[0] == pytest.approx({"ann": liar, "bob": 0.5})
