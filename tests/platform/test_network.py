"""Routes between hosts. Where not computed by hand, the expected links are SimGrid 3.32's."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from qops_batsim import InputError, read_platform
from qops_batsim.platform import Host, Platform
from qops_batsim.platform.network import LOOPBACK, Network, NetworkPath
from support.platform_text import TREE, parse, parse_zone


@pytest.fixture(scope="module")
def tree() -> Network:
    return Network(parse(TREE))


def names(path: NetworkPath) -> list[str]:
    return [link.name for link in path.links]


@pytest.mark.parametrize(
    ("source", "destination", "links", "latency", "bandwidth"),
    [
        ("l1", "l1", "__loopback__", 0.0, 10e9),
        ("l1", "l2", "wire", 0.001, 100e6),
        # Floyd joins routes; the way back is in reverse, down a split-duplex link.
        ("l1", "l3", "wire pair_UP", 0.003, 50e6),
        ("l3", "l1", "pair_DOWN wire", 0.003, 50e6),
        ("r1.x", "r1.x", "right_link_1_loopback", 1e-6, 6e9),
        (
            *("r1.x", "r3.x"),
            "right_link_1_limiter right_link_1_UP right_backbone right_link_3_DOWN "
            "right_link_3_limiter",
            *(110e-6, 125e6),
        ),
        ("s1", "s2", "up spine both_DOWN", 0.0081, 10e6),
        ("s2", "s1", "both_UP spine down", 0.0091, 20e6),
        ("s1", "s1", "up spine down", 0.0071, 10e6),
        # Between zones: to the gateway, the route between the zones, from the gateway.
        (
            *("l2", "r2.x"),
            "pair_UP wire wan right_backbone right_link_2_DOWN right_link_2_limiter",
            *(0.01306, 5e6),
        ),
        (
            *("r2.x", "l1"),
            "right_link_2_limiter right_link_2_UP right_backbone wan wire pair_DOWN wire",
            *(0.01406, 5e6),
        ),
        # Different routes for the two ways.
        (
            *("r1.x", "s2"),
            "right_link_1_limiter right_link_1_UP right_backbone wan lane spine both_DOWN",
            *(0.03516, 5e6),
        ),
        (
            *("s2", "r1.x"),
            "both_UP spine lane right_backbone right_link_1_DOWN right_link_1_limiter",
            *(0.02516, 7e6),
        ),
        # Routers are nodes, too.
        ("door", "l3", "wire", 0.001, 100e6),
    ],
)
def test_tree(
    tree: Network, source: str, destination: str, links: str, latency: float, bandwidth: float
) -> None:
    path = tree.path(source, destination)
    assert names(path) == links.split()
    assert path.latency == pytest.approx(latency, rel=1e-12, abs=0)
    assert path.bandwidth == bandwidth


def test_no_route(tree: Network) -> None:
    with pytest.raises(InputError) as caught:
        tree.path("s1", "l1")
    assert str(caught.value) == (
        "a.xml: no route from 'star' to 'left' in zone 'root' (routing Full)"
    )
    with pytest.raises(InputError, match="a.xml: 'l9' is not a host or router of this platform"):
        tree.path("l1", "l9")


def test_recorded_platform(shared: Path) -> None:
    network = Network(read_platform(shared / "batsim/inputs/upstream/small_platform.xml"))
    path = network.path("Jupiter", "Ginette")
    assert names(path) == ["9", "4", "3", "5"]
    assert path.latency == pytest.approx(1.461517e-3 + 479.78e-6 + 514.433e-6 + 278.066e-6)
    assert path.bandwidth == 7.20975e6
    assert names(network.path("Ginette", "Jupiter")) == ["5", "3", "4", "9"]
    assert names(network.path("Fafard", "Fafard")) == ["loopback"]


def test_zero_latency_platform(shared: Path) -> None:
    path = Network(read_platform(shared / "batsim/inputs/p4_nonet.xml")).path("host0", "host10")
    assert path == NetworkPath((), 0.0)
    assert path.bandwidth == math.inf


def test_vivaldi_latency_is_the_distance_plus_both_heights() -> None:
    network = Network(
        parse_zone(
            '<host id="a" speed="1f" coordinates="0 3 -1"/>'
            '<host id="b" speed="1f" coordinates="4 0 2.5"/>',
            "Vivaldi",
        )
    )
    assert network.path("a", "b") == NetworkPath((), (5 + 1 + 2.5) / 1000)
    assert network.path("a", "a").latency == 0.002


@pytest.mark.parametrize("routing", ["Floyd", "Dijkstra", "DijkstraCache", "floyd"])
def test_shortest_way_counts_links(routing: str) -> None:
    links = "".join(f'<link id="{name}" bandwidth="1MBps"/>' for name in "abcd")
    hosts = "".join(f'<host id="h{n}" speed="1f"/>' for n in range(5))
    network = Network(
        parse_zone(
            f"{links}{hosts}"
            '<route src="h0" dst="h3"><link_ctn id="a"/><link_ctn id="b"/><link_ctn id="c"/>'
            "</route>"
            '<route src="h0" dst="h1"><link_ctn id="d"/></route>'
            '<route src="h1" dst="h3" symmetrical="no"><link_ctn id="c"/></route>',
            routing,
        )
    )
    assert names(network.path("h0", "h3")) == ["d", "c"]
    assert names(network.path("h3", "h0")) == ["c", "b", "a"]
    assert names(network.path("h0", "h0")) == [LOOPBACK.name]
    with pytest.raises(InputError, match="no route from 'h0' to 'h4' in zone 'z'"):
        network.path("h0", "h4")


def test_shortest_way_through_zones() -> None:
    """Floyd between zones: from one gateway of a zone on the way to its other one."""
    links = "".join(f'<link id="{name}" bandwidth="1MBps" latency="1s"/>' for name in ("ab", "bc"))
    zones = "".join(
        f'<zone id="{z}" routing="Full"><link id="in_{z}" bandwidth="1MBps" latency="1s"/>'
        f'<host id="{z}1" speed="1f"/><host id="{z}2" speed="1f"/>'
        f'<route src="{z}1" dst="{z}2"><link_ctn id="in_{z}"/></route></zone>'
        for z in "abc"
    )
    platform = parse_zone(
        f"{zones}{links}"
        '<zoneRoute src="a" dst="b" gw_src="a2" gw_dst="b1"><link_ctn id="ab"/></zoneRoute>'
        '<zoneRoute src="b" dst="c" gw_src="b2" gw_dst="c1"><link_ctn id="bc"/></zoneRoute>',
        "Floyd",
    )
    path = Network(platform).path("a1", "c2")
    assert names(path) == ["in_a", "ab", "in_b", "bc", "in_c"]
    assert path.latency == 5.0


def test_no_routing_means_no_routes() -> None:
    network = Network(parse_zone('<host id="a" speed="1f"/><host id="b" speed="1f"/>', "None"))
    with pytest.raises(InputError, match="routing None"):
        network.path("a", "b")


def test_a_large_cluster_keeps_no_links() -> None:
    platform = parse(
        '<platform version="4.1"><cluster id="c" prefix="n" suffix="" radical="0-4095" '
        'speed="1Gf" bw="1GBps" lat="1us" sharing_policy="SHARED"/></platform>'
    )
    assert len(platform.compute_hosts) == 4096
    assert (platform.links, platform.zones) == ({}, ())
    network = Network(platform)
    assert names(network.path("n0", "n4095")) == ["c_link_0", "c_link_4095"]
    assert names(network.path("n7", "n7")) == ["c_link_7"]


def test_hosts_without_zones_are_next_to_each_other() -> None:
    hosts = tuple(Host(name=name, speeds=(1.0,)) for name in "ab")
    assert Network(Platform(compute_hosts=hosts)).path("a", "b") == NetworkPath((), 0.0)


def test_a_full_zone_need_not_name_the_way_to_its_gateway() -> None:
    """As in SimGrid 3.34: between a member and the gateway, what is not named takes nothing."""
    network = Network(
        parse(
            '<platform version="4.1"><zone id="root" routing="Full"><zone id="in" routing="Full">'
            '<host id="h1" speed="1f"/><host id="h2" speed="1f"/><router id="door"/></zone>'
            '<zone id="out" routing="Full"><host id="o" speed="1f"/></zone>'
            '<link id="wan" bandwidth="1MBps" latency="2s"/>'
            '<zoneRoute src="in" dst="out" gw_src="door" gw_dst="o"><link_ctn id="wan"/>'
            "</zoneRoute></zone></platform>"
        )
    )
    for source, destination in (("h1", "o"), ("o", "h2")):
        path = network.path(source, destination)
        assert (names(path), path.latency) == (["wan"], 2.0)
    with pytest.raises(InputError, match="no route from 'h1' to 'h2' in zone 'in'"):
        network.path("h1", "h2")


def test_a_clusters_own_links_are_shared_even_if_it_says_otherwise() -> None:
    # So does SimGrid, which heeds FATPIPE for the backbone only.
    cluster = (
        '<cluster id="c" prefix="h" suffix="" radical="0-1" speed="1Gf" bw="1MBps" lat="0s" '
        'bb_bw="1MBps" bb_lat="0s" sharing_policy="FATPIPE" bb_sharing_policy="FATPIPE"/>'
    )
    path = Network(parse(f'<platform version="4.1">{cluster}</platform>')).path("h0", "h1")
    assert [link.sharing_policy for link in path.links] == ["SHARED", "FATPIPE", "SHARED"]


def test_a_message_needs_no_route_of_a_full_zone() -> None:
    network = Network(parse_zone('<host id="a" speed="1f"/><host id="b" speed="1f"/>'))
    assert network.path("a", "b", message=True) == NetworkPath((), 0.0)
    with pytest.raises(InputError, match="no route from 'a' to 'b'"):
        network.path("a", "b")
