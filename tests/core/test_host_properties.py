"""What properties of hosts say about a machine whose jobs share hosts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.core.host_properties import machine_of, read_memory
from qops_batsim.errors import InputError

NODE = {"cores": "32", "memory": "128GB", "labels": "cpu,skylake"}
GPU_NODE = NODE | {"gpus:v100": "2", "gpus:a100": "1", "labels": "gpu , skylake", "weight": "7"}


def test_a_machine_of_two_kinds_of_hosts() -> None:
    # host      cores  memory  gpus  fpga  gpus:a100  gpus:v100   labels
    # a            32  128 GB     0     0          0          0   cpu, skylake
    # b            32  128 GB     3     0          1          2   gpu, skylake
    # c             8       0     0     4          0          0
    site = {"cores": "8", "kind:fpga": "4", "licence:matlab": "5"}
    machine = machine_of([NODE, GPU_NODE | {"licence:matlab": "2"}, site], ["a", "b", "c"])
    assert machine is not None
    assert machine.hosts == 3
    assert machine.names == ("a", "b", "c")
    assert machine.kinds == ("cores", "memory", "gpus", "fpga", "gpus:a100", "gpus:v100")
    assert machine.amounts == (
        (32, 128 * 10**9, 0, 0, 0, 0),
        (32, 128 * 10**9, 3, 0, 1, 2),
        (8, 0, 0, 4, 0, 0),
    )
    assert machine.labels == {"cpu": 0b001, "gpu": 0b010, "skylake": 0b011}
    assert machine.weights == (0, 7, 0)
    assert machine.licences == {"matlab": 7}
    assert machine.totals["memory"] == 256 * 10**9


@pytest.mark.parametrize(
    "properties",
    [
        [],
        [{}, {}],
        # AROMA's hosts, and names that mean nothing without amounts.
        [{"memory": "536870912", "role": "compute_node"}],
        [{"memory": "plenty", "weight": "heavy", "labels": "a,,b", "licence:x": "-1"}],
        [{"cores": "0"}, {"gpus": "0"}],
    ],
)
def test_hosts_without_amounts_are_units(properties: list[dict[str, str]]) -> None:
    assert machine_of(properties, [f"h{number}" for number in range(len(properties))]) is None


def test_more_gpus_than_of_known_types() -> None:
    machine = machine_of([{"gpus:v100": "2", "gpus": "5"}], ["a"])
    assert machine is not None
    assert machine.amounts == ((5, 2),)


WRONG = [
    ({"cores": "-1"}, "property cores is '-1'; a whole number from 0 to 1000000000000000"),
    ({"cores": "1.5"}, "property cores is '1.5'; a whole number"),
    ({"cores": ""}, "property cores is ''; a whole number"),
    ({"gpus": "10000000000000000000000"}, "property gpus is '1000"),
    ({"cores": "1", "memory": "64 parsecs"}, "property memory is '64 parsecs'; a size: a number"),
    ({"cores": "1", "memory": "-64GB"}, "property memory is '-64GB'; a size"),
    ({"cores": "1", "memory": "1.5"}, "property memory is '1.5'; a whole number of bytes"),
    ({"cores": "1", "memory": "2PB"}, "'2PB'; a whole number of bytes up to 1000000000000000"),
    ({"gpus:v100": "2", "gpus:a100": "1", "gpus": "2"}, "property gpus is '2'; at least 3"),
    ({"gpus:": "2"}, "property 'gpus:'; a name of letters"),
    ({"kind:cores": "2"}, "other than cores, memory, gpus, is expected behind the colon"),
    ({"kind:a b": "2"}, "property 'kind:a b'; a name of letters"),
    ({"kind:fpga": "two"}, "property 'kind:fpga' is 'two'; a whole number"),
    ({"cores": "1", "licence:matlab": "-2"}, "property 'licence:matlab' is '-2'; a whole number"),
    ({"cores": "1", "weight": "4294967296"}, "property weight is '4294967296'; a whole number"),
    ({"cores": "1", "weight": "-1"}, "property weight is '-1'; a whole number from 0 to 429496"),
    ({"cores": "1", "labels": "gpu,,big"}, "property labels is 'gpu,,big'; names of letters"),
]


@pytest.mark.parametrize(("properties", "message"), WRONG)
def test_wrong_properties(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        machine_of([{}, properties], ["a", "b"])
    assert str(caught.value).startswith("host 'b': property ")
    assert message in str(caught.value)


@given(st.integers(0, 10**15))
def test_memory_in_bytes_is_exact(size: int) -> None:
    assert read_memory(str(size), where="memory") == size


@given(st.integers(1, 9999), st.sampled_from(["kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"]))
def test_tenths_of_units_are_rounded(tenths: int, unit: str) -> None:
    exact = tenths * (1024 if "i" in unit else 1000) ** ("KMGT".index(unit[0].upper()) + 1) / 10
    text = f"{tenths / 10}{unit}"
    if exact > 10**15:
        with pytest.raises(InputError, match="whole number of bytes up to"):
            read_memory(text, where="memory")
    else:
        assert abs(read_memory(text, where="memory") - exact) <= 0.5


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.sets(st.sampled_from("xyz")))))
def test_machines_say_what_hosts_say(hosts: list[tuple[int, int, set[str]]]) -> None:
    properties = [
        {"cores": str(cores), "gpus:t": str(gpus), "labels": ",".join(labels)}
        for cores, gpus, labels in hosts
    ]
    machine = machine_of(properties, [str(number) for number in range(len(hosts))])
    if machine is None:
        assert not any(cores or gpus for cores, gpus, _ in hosts)
        return
    for number, (cores, gpus, labels) in enumerate(hosts):
        told = dict(zip(machine.kinds, machine.amounts[number], strict=True))
        assert told.get("cores", 0) == cores
        assert told.get("gpus", 0) == told.get("gpus:t", 0) == gpus
        assert {name for name, bits in machine.labels.items() if bits >> number & 1} == labels
    assert machine.totals.get("cores", 0) == sum(cores for cores, _, _ in hosts)
