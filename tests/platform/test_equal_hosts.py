"""Made platforms, and the ones that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, read_platform, simulate
from qops_batsim.engine import EngineOptions
from qops_batsim.platform import EqualHosts, make_cluster, make_mixed_cluster, write_platform
from qops_batsim.platform.network import Network
from qops_batsim.platform.platform_model import host_groups
from qops_batsim.platform.simgrid_write import format_platform
from qops_batsim.shipped import find_input, shipped_directory, shipped_names
from support.shipped_inputs import shipped_platforms, write_shipped_platforms


def test_cluster_without_network() -> None:
    platform = make_cluster(101, speed=2e9, cores=4, memory=2**30)
    names = [host.name for host in platform.compute_hosts]
    assert names == [f"host{number:03d}" for number in range(101)] == sorted(names)
    host = platform.compute_hosts[7]
    assert (host.speed, host.cores, host.properties["memory"]) == (2e9, 4, "1073741824")
    assert platform.master is not None
    # Batsim refuses a role on the host that it makes master by its name.
    assert (platform.master.name, platform.master.properties) == ("master_host", {})
    path = Network(platform).path("host000", "host100")
    assert (path.links, path.latency) == ((), 0.0)


def test_cluster_with_network(tmp_path: Path) -> None:
    platform = make_cluster(10, prefix="n", bandwidth=1e8, latency=1e-4)
    path = Network(platform).path("n3", "n9")
    assert [link.name for link in path.links] == ["link_n3_UP", "link_n9_DOWN"]
    assert (path.latency, path.bandwidth) == (2e-4, 1e8)
    assert Network(platform).path("master_host", "n0").latency == 2e-4
    write_platform(platform, tmp_path / "a.xml")
    assert read_platform(tmp_path / "a.xml") == platform


def test_without_network_is_read_back(tmp_path: Path) -> None:
    for platform in (make_cluster(1), make_cluster(12, memory=5, cores=2)):
        write_platform(platform, tmp_path / "a.xml")
        assert read_platform(tmp_path / "a.xml") == platform


def test_cores_have_one_meaning() -> None:
    """SimGrid's cores, which compute, are those that jobs share."""
    platform = make_cluster(3, cores=4, memory=10**9, gpus=1)
    assert {host.cores for host in platform.compute_hosts} == {4}
    assert platform.machine is not None
    assert platform.machine.totals == {"cores": 12, "memory": 3 * 10**9, "gpus": 3}
    assert make_cluster(3, memory=10**9).machine is None


def test_groups_of_hosts(tmp_path: Path) -> None:
    plain = EqualHosts(hosts=9, cores=32, memory=128 * 10**9, labels=("cpu",))
    fast = EqualHosts(hosts=2, cores=16, gpus={"v100": 2}, kinds={"fpga": 3}, weight=5)
    platform = make_mixed_cluster([plain, fast], licences={"matlab": 7, "x": 1})
    machine = platform.machine
    assert machine is not None
    assert machine.names[8:] == ("host08", "host09", "host10")
    assert machine.kinds == ("cores", "memory", "gpus", "fpga", "gpus:v100")
    assert machine.amounts[8:] == ((32, 128 * 10**9, 0, 0, 0), *[(16, 0, 2, 3, 2)] * 2)
    assert machine.labels == {"cpu": 2**9 - 1}
    assert machine.weights == (0,) * 9 + (5,) * 2
    assert machine.licences == {"matlab": 7, "x": 1}
    write_platform(platform, tmp_path / "a.xml")
    assert read_platform(tmp_path / "a.xml") == platform
    # Licences are the machine's, whichever host carries them.
    assert [(group.first_id, group.last_id) for group in host_groups(platform)] == [
        *((0, 8), (9, 10), (None, None)),
    ]


@pytest.mark.parametrize(
    ("group", "licences", "message"),
    [
        ({"cores": 0}, {}, "cores is 0; a whole number from 1"),
        ({"gpus": -1}, {}, "a cluster: property gpus is '-1'; a whole number from 0"),
        ({"gpus": {"a b": 1}}, {}, "property 'gpus:a b'; a name of letters"),
        ({"kinds": {"cores": 1}}, {}, "property 'kind:cores'; a name of letters"),
        ({"cores": 1, "weight": -1}, {}, "property weight is '-1'"),
        ({"cores": 1, "labels": ("a", "")}, {}, "property labels is 'a,'; names of letters"),
        ({"cores": 1}, {"m": -1}, "property 'licence:m' is '-1'"),
        ({"labels": ("a",)}, {}, "labels, weights and licences are given for hosts without"),
        ({"memory": 1}, {"m": 1}, "labels, weights and licences are given for hosts without"),
    ],
)
def test_refused_groups(group: dict[str, Any], licences: dict[str, int], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_mixed_cluster([EqualHosts(hosts=1, **group)], licences=licences)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hosts": 0}, "hosts is 0; a whole number from 1 to 1000000"),
        ({"hosts": 10**9}, "hosts is 1000000000; a whole number from 1"),
        ({"hosts": 1, "cores": 0}, "cores is 0; a whole number from 1"),
        ({"hosts": 1, "speed": 0.0}, "speed is 0; a number above 0"),
        ({"hosts": 1, "bandwidth": -1.0}, "bandwidth is -1; a number above 0"),
        ({"hosts": 1, "memory": 0}, "memory is 0; a number above 0"),
        ({"hosts": 1, "latency": 1.0}, "latency is 1; above 0, it needs a bandwidth"),
        ({"hosts": 1, "latency": -1.0, "bandwidth": 1.0}, "latency is -1; "),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_cluster(**options)
    assert message in str(caught.value)


def test_shipped_files_are_what_the_generator_makes(tmp_path: Path) -> None:
    write_shipped_platforms(tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.glob("*.xml")}
    files = {path.name: path.read_bytes() for path in shipped_directory("platforms").glob("*.xml")}
    assert made == files
    assert sorted(shipped_platforms()) == shipped_names("platforms")


@pytest.mark.parametrize("name", sorted(shipped_platforms()))
def test_shipped_platforms_are_read_back(name: str) -> None:
    assert read_platform(find_input(name, "platforms")) == shipped_platforms()[name].platform


@pytest.mark.parametrize(
    ("name", "processors"),
    [
        ("sdsc_sp2_128", 128),
        ("kth_sp2_100", 100),
        ("sp2_128", 128),
        ("ctc_sp2_338", 338),
        ("ctc_sp2_430", 430),
    ],
)
def test_machines_of_the_logs(name: str, processors: int) -> None:
    platform = shipped_platforms()[name].platform
    assert len(platform.compute_hosts) == processors
    assert {(host.speed, host.cores) for host in platform.compute_hosts} == {(100e6, 1)}
    assert {host.properties["role"] for host in platform.compute_hosts} == {"compute_node"}
    numbers = [int(host.name.removeprefix("host")) for host in platform.compute_hosts]
    assert numbers == list(range(processors))


def test_energy_can_be_counted_on_the_machine_of_the_batsim_py_example() -> None:
    """The real Batsim, which batsim-py has count energy, wants the power of every host."""
    platform = shipped_platforms()["kth_sp2_100"].platform
    assert platform.master is not None
    for host in (platform.master, *platform.compute_hosts):
        assert host.properties["wattage_per_state"] == "120:120:200"
    options = EngineOptions(energy=True)
    simulation = simulate("fcfs", "tiny_8", platform, engine=options)
    watts = simulation.energy
    assert watts is not None
    assert watts.entries[-1][1] > 0


def test_aroma_grid() -> None:
    platform = shipped_platforms()["aroma_grid"].platform
    hosts = {host.name: host for host in platform.compute_hosts}
    assert sum(host.cores for host in hosts.values()) == 128
    assert {host.zone_properties["site"] for host in hosts.values()} == {
        "site_a",
        "site_b",
        "site_c",
    }
    assert len({host.speed for host in hosts.values()}) == 4
    assert int(hosts["c_node41"].properties["memory"]) == 512 * 2**20
    network = Network(platform)
    ways = {
        "one cluster": network.path("b_node10", "b_node25"),
        "one site": network.path("a_node10", "a_smp13"),
        "a and b": network.path("a_smp10", "b_node10"),
        "a and c": network.path("a_node10", "c_node10"),
        "b and c": network.path("b_node10", "c_node10"),
    }
    bandwidths = [way.bandwidth for way in ways.values()]
    assert bandwidths == sorted(bandwidths, reverse=True)
    assert [link.name for link in ways["a and b"].links] == [
        "a_smp_link_10_UP",
        "a_smp_backbone",
        "site_a_switch",
        "site_a_to_site_b",
        "b_node_backbone",
        "b_node_link_10_DOWN",
    ]
    assert ways["a and b"].latency == pytest.approx(
        50e-6 + 20e-6 + 50e-6 + 4e-3 + 10e-6 + 10e-6, rel=1e-12
    )
    for name in hosts:
        assert network.path("master_host", name).latency < 1e-3


def test_a_small_machine_of_shared_hosts() -> None:
    machine = shipped_platforms()["shared_8"].platform.machine
    assert machine is not None
    assert machine.totals == {"cores": 128, "memory": 512 * 10**9, "gpus": 4, "gpus:v100": 4}
    assert machine.labels == {"gpu": 0b11000000}


def test_equal_platforms_give_equal_bytes() -> None:
    first = format_platform(make_cluster(30, bandwidth=1e8))
    assert first == format_platform(make_cluster(30, bandwidth=1e8))
