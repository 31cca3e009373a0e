"""Groups of hosts as text."""

from __future__ import annotations

import pytest

from qops_batsim import InputError
from qops_batsim.platform import EqualHosts
from qops_batsim.platform.group_text import read_group

BASE = EqualHosts(hosts=84, speed=2e9, cores=32, memory=128 * 10**9, labels=("cpu",), weight=1)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("hosts=16", {"hosts": 16}),
        ("hosts=16, cores = 8", {"hosts": 16, "cores": 8}),
        ("hosts=1,memory=2GiB,weight=0", {"hosts": 1, "memory": 2**31, "weight": 0}),
        ("hosts=1,speed=1Gf", {"hosts": 1, "speed": 1e9}),
        ("hosts=1,gpus=4", {"hosts": 1, "gpus": 4}),
        ("gpus=v100:2,a100:1,hosts=1", {"hosts": 1, "gpus": {"v100": 2, "a100": 1}}),
        ("gpus=v100:2,hosts=1,gpus=a100:1", {"hosts": 1, "gpus": {"v100": 2, "a100": 1}}),
        ("hosts=1,kind=fpga=2,kind=nic=1", {"hosts": 1, "kinds": {"fpga": 2, "nic": 1}}),
        ("hosts=1,labels=gpu,big", {"hosts": 1, "labels": ("gpu", "big")}),
        ("labels=gpu,labels=big,hosts=1", {"hosts": 1, "labels": ("gpu", "big")}),
        ("hosts=1,labels=", {"hosts": 1, "labels": ()}),
    ],
)
def test_a_group_has_what_the_others_have_but_for_what_it_says(
    text: str, changed: dict[str, object]
) -> None:
    fields = {name: getattr(BASE, name) for name in BASE.__struct_fields__}
    assert read_group(text, BASE, where="--group") == EqualHosts(**{**fields, **changed})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--group is '': ''"),
        ("cores=4", "--group is 'cores=4'; hosts=N is expected in it"),
        ("hosts=4,core=4", "'core'; did you mean 'cores'?"),
        ("hosts=4,gpu", "--group is 'hosts=4,gpu': 'gpu'; did you mean 'gpus'?"),
        ("hosts=4,hosts=5", "hosts is given twice; once is expected"),
        ("hosts=four", "--group: hosts is 'four'; a whole number is expected"),
        ("hosts=1,cores=-1", "--group: cores is '-1'; a whole number is expected"),
        ("hosts=1,memory=1Gb", "--group: memory is '1Gb'; a size: a number with B"),
        ("hosts=1,speed=1GHz", "--group: speed is '1GHz'; a speed: a number with f"),
        ("hosts=1,gpus=v100:x", "--group: gpus is 'v100:x'; a whole number N, or TYPE:N"),
        ("hosts=1,gpus=2,v100:1", "--group: gpus is '2'; a whole number N, or TYPE:N"),
        ("hosts=1,gpus=a:1,gpus=a:2", "--group: gpus is 'a:2'; a whole number N, or TYPE:N"),
        ("hosts=1,kind=fpga", "--group: kind is 'fpga'; NAME=N with a whole number N"),
    ],
)
def test_wrong_groups(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_group(text, BASE, where="--group")
    assert message in str(caught.value)
