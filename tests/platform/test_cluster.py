"""Clusters kept as parameters."""

from __future__ import annotations

import pytest

from qops_batsim import InputError
from qops_batsim.limits import MAX_HOSTS
from qops_batsim.platform.platform_model import Cluster, parse_radical


def test_radical() -> None:
    assert parse_radical("0-31,40", where="radical") == ((0, 31), (40, 40))
    assert parse_radical("7", where="radical") == ((7, 7),)
    assert parse_radical("1-2, 5 - 6", where="radical") == ((1, 2), (5, 6))
    assert parse_radical("00-03", where="radical") == ((0, 3),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "whole numbers and ascending ranges"),
        ("0-", "whole numbers and ascending ranges"),
        ("0-3,", "whole numbers and ascending ranges"),
        ("0-3-5", "whole numbers and ascending ranges"),
        ("-3", "whole numbers and ascending ranges"),
        ("a-b", "whole numbers and ascending ranges"),
        ("²", "whole numbers and ascending ranges"),
        ("1.5", "whole numbers and ascending ranges"),
        ("5-2", "'5-2' ends before it starts"),
        ("0-999999999", f"1000000000 hosts; at most {MAX_HOSTS}"),
        ("0-599999,0-599999", f"1200000 hosts; at most {MAX_HOSTS}"),
    ],
)
def test_radical_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=r"a.xml: radical is ") as caught:
        parse_radical(text, where="a.xml: radical")
    assert reason in str(caught.value)


def test_names() -> None:
    cluster = Cluster(
        name="c",
        prefix="node-",
        suffix=".site.org",
        radical="8-10,20",
        speeds=(1e9,),
        bandwidth=1e8,
        latency=0.0,
    )
    assert cluster.host_names() == [f"node-{n}.site.org" for n in (8, 9, 10, 20)]
    assert cluster.link_name("node-20.site.org") == "c_link_20"
    assert cluster.router_name == "node-c_router.site.org"
