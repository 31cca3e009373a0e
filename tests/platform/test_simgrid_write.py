"""Writing platforms: what is read back is what was written."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, read_platform
from qops_batsim.platform import Host, Link, Platform, Zone, parse_platform, write_platform
from qops_batsim.platform.assembly import PendingHostLink, PendingRoute, PlatformParts
from qops_batsim.platform.platform_model import SHARING_POLICIES, Cluster, Route
from qops_batsim.platform.simgrid_write import format_platform
from support.platform_text import TREE, parse

_TEXT = st.text(
    st.characters(min_codepoint=0x20, exclude_categories=("Cs",), exclude_characters="\ufffe\uffff")
    | st.sampled_from("\t\n\r<>&\"'"),
    max_size=5,
)
_RATE = st.floats(min_value=1e-3, max_value=1e18)
_LATENCY = st.just(0.0) | st.floats(min_value=1e-9, max_value=100.0)
_SPEEDS = st.tuples(_RATE, *[st.just(0.0) | _RATE] * 2).flatmap(
    lambda speeds: st.integers(1, 3).map(lambda count: speeds[:count])
)
_PROPERTIES = st.dictionaries(
    _TEXT.filter(lambda name: name not in ("", "role")), _TEXT, max_size=2
)
_ROLES = st.sampled_from(({}, {"role": "compute_node"}, {"role": ""}, {"role": "storage"}))
_PLACES = st.tuples(*[st.floats(-1e3, 1e3)] * 3)


class _Drawn(PlatformParts):
    """Parts of a platform, drawn at random."""

    def __init__(self, draw: Callable[[st.SearchStrategy], object]) -> None:
        super().__init__("made up")
        self.draw = draw

    def name(self) -> str:
        return f"{self.draw(_TEXT)}#{len(self.zone_of)}"

    def link(self, *policies: str) -> Link:
        link = Link(
            name=f"{self.draw(_TEXT)}{len(self.links)}",
            bandwidth=self.draw(_RATE),
            latency=self.draw(_LATENCY),
            sharing_policy=self.draw(st.sampled_from(policies or SHARING_POLICIES)),
            properties={} if policies else self.draw(_PROPERTIES),
        )
        self.links[link.name] = link
        return link

    def zone(self, parent: str, depth: int) -> list[str]:
        """Add a zone and what is in it; return nodes that can be its gateways."""
        inner = depth > 0 and self.draw(st.booleans())
        routings = ("Full", "Floyd", "Dijkstra", "DijkstraCache", "None")
        zone = Zone(
            name=self.name(),
            routing=self.draw(
                st.sampled_from(routings if inner else (*routings, "Vivaldi", "Cluster"))
            ),
            parent=parent,
            properties=self.draw(_PROPERTIES),
        )
        self.zones[zone.name] = zone
        self.zone_of[zone.name] = ""
        return self.inner(zone, depth) if inner else self.leaf(zone)

    def inner(self, zone: Zone, depth: int) -> list[str]:
        members: dict[str, list[str]] = {}
        for _ in range(self.draw(st.integers(1, 3))):
            if self.draw(st.booleans()):
                cluster = self.cluster(zone.name)
                members[cluster.name] = [cluster.router_name, cluster.host_names()[0]]
            else:
                before = set(self.zones)
                gateways = self.zone(zone.name, depth - 1)
                members[next(name for name in self.zones if name not in before)] = gateways
        names = list(members)
        if zone.routing != "None" and len(names) > 1:
            self.route(zone, names[0], names[1], members[names[0]][0], members[names[1]][-1])
        return [gateway for gateways in members.values() for gateway in gateways]

    def leaf(self, zone: Zone) -> list[str]:
        nodes = []
        for _ in range(self.draw(st.integers(1, 3))):
            name = self.name()
            self.zone_of[name] = zone.name
            nodes.append(name)
            place = self.draw(_PLACES) if zone.routing == "Vivaldi" else None
            if self.draw(st.integers(0, 4)) == 0:
                zone.routers[name] = place
                continue
            speeds = self.draw(_SPEEDS)
            host = Host(
                name=name,
                speeds=speeds,
                cores=self.draw(st.integers(1, 64)),
                properties=self.draw(_PROPERTIES) | self.draw(_ROLES),
                zone=zone.name,
                coordinates=place,
            )
            self.hosts.append((name, host))
            if zone.routing == "Cluster":
                link = self.link()
                ways = {"SPLITDUPLEX": ("_UP", "_DOWN")}.get(link.sharing_policy, ("", ""))
                up, down = (f"{link.name}{way}" for way in ways)
                self.host_links.append(
                    PendingHostLink(where=name, zone=zone.name, host=name, up=up, down=down)
                )
        if zone.routing == "Cluster" and self.draw(st.booleans()):
            backbone = self.link("SHARED")
            self.zones[zone.name] = msgspec.structs.replace(zone, backbone=backbone.name)
        if zone.routing not in ("None", "Vivaldi", "Cluster"):
            self.route(zone, nodes[0], nodes[-1])
        return nodes

    def cluster(self, zone: str) -> Cluster:
        backbone, loopback = self.draw(st.booleans()), self.draw(st.booleans())
        cluster = Cluster(
            name=self.name(),
            prefix=f"{self.name()}_",
            suffix=self.draw(_TEXT),
            radical=self.draw(st.sampled_from(("0-2", "7", "1-2,5"))),
            speeds=self.draw(_SPEEDS),
            cores=self.draw(st.integers(1, 3)),
            bandwidth=self.draw(_RATE),
            latency=self.draw(_LATENCY),
            sharing_policy=self.draw(st.sampled_from(SHARING_POLICIES)),
            backbone_bandwidth=self.draw(_RATE) if backbone else 0.0,
            backbone_latency=self.draw(_LATENCY) if backbone else 0.0,
            backbone_sharing_policy=self.draw(st.sampled_from(("SHARED", "FATPIPE"))),
            loopback_bandwidth=self.draw(_RATE) if loopback else 0.0,
            loopback_latency=self.draw(_LATENCY) if loopback else 0.0,
            limiter_bandwidth=self.draw(st.just(0.0) | _RATE),
            router=self.draw(st.sampled_from(("", f"{self.name()}_router"))),
            properties=self.draw(_PROPERTIES),
            zone=zone,
        )
        self.add_cluster(cluster, cluster.name)
        return cluster

    def route(
        self,
        zone: Zone,
        source: str,
        destination: str,
        source_gateway: str = "",
        destination_gateway: str = "",
    ) -> None:
        links = [self.link() for _ in range(self.draw(st.integers(1, 2)))]
        links += self.draw(st.lists(st.sampled_from(list(self.links.values())), max_size=1))
        ways = st.sampled_from(("UP", "DOWN"))
        route = Route(
            source=source,
            destination=destination,
            links=(),
            source_gateway=source_gateway,
            destination_gateway=destination_gateway,
            symmetrical=self.draw(st.booleans()),
        )
        self.routes.append(
            PendingRoute(
                where="route",
                zone=zone.name,
                route=route,
                between_zones=bool(source_gateway),
                links=[
                    (
                        link.name,
                        self.draw(ways) if link.sharing_policy == "SPLITDUPLEX" else "NONE",
                    )
                    for link in links
                ],
            )
        )


@st.composite
def platforms(draw: Callable[[st.SearchStrategy], object]) -> Platform:
    parts = _Drawn(draw)
    if draw(st.integers(0, 9)) == 0:
        parts.cluster("")
    else:
        parts.zone("", 2)
    if not any(host.properties.get("role", "") != "storage" for _, host in parts.hosts):
        # There must be a compute host; put one where hosts can be.
        leaf = next(
            name
            for name in parts.zones
            if name not in {zone.parent for zone in parts.zones.values()}
            and name not in {cluster.zone for cluster in parts.clusters}
        )
        for name in ("last", "master_host") if draw(st.booleans()) else ("last",):
            parts.zone_of[name] = leaf
            host = Host(name=name, speeds=(1.0,), zone=leaf, coordinates=(0.0, 0.0, 0.5))
            parts.hosts.append((name, host))
    return parts.platform()


@given(platforms())
def test_round_trip(platform: Platform) -> None:
    text = format_platform(platform)
    again = parse_platform(text.encode(), source="again")
    assert again == platform
    # Links may come in another order, the one in which the file declares them.
    settled = format_platform(again)
    assert format_platform(parse_platform(settled.encode(), source="again")) == settled


def test_order_of_elements_is_simgrids() -> None:
    """SimGrid's parser wants links after inner zones, before their first use."""
    text = format_platform(parse(TREE))
    assert parse_platform(text.encode(), source="b.xml") == parse(TREE)
    order = [
        '<zone id="root"',
        '<prop id="country" value="outer"',
        '<zone id="left"',
        '<link id="wire"',
        '<host id="l1"',
        '<router id="door"',
        '<route src="l1"',
        '<zone id="star"',
        '<link id="up"',
        '<host id="s1"',
        '<host_link id="s1"',
        '<backbone id="spine"',
        '<cluster id="right"',
        '<link id="wan"',
        '<zoneRoute src="left"',
    ]
    assert sorted(order, key=text.index) == order
    assert '<link_ctn id="pair" direction="UP"/>' in text
    assert '<host_link id="s2" up="both_UP" down="both_DOWN"/>' in text


def test_hosts_without_a_zone_get_one_without_latencies(tmp_path: Path) -> None:
    platform = Platform(
        compute_hosts=(Host(name="a", speeds=(1e8,)),),
        master=Host(name="master_host", speeds=(1e8,), role="master"),
    )
    write_platform(platform, tmp_path / "deep" / "a.xml", comment="What this is:\n  a test.\n")
    assert (tmp_path / "deep" / "a.xml").read_text() == (
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        "<!--\n  What this is:\n    a test.\n-->\n"
        '<platform version="4.1">\n'
        '<zone id="AS0" routing="Vivaldi">\n'
        '  <host id="master_host" speed="100Mf" coordinates="0 0 0"/>\n'
        '  <host id="a" speed="100Mf" coordinates="0 0 0"/>\n'
        "</zone>\n"
        "</platform>\n"
    )
    again = read_platform(tmp_path / "deep" / "a.xml")
    write_platform(again, tmp_path / "b.xml.gz")
    assert read_platform(tmp_path / "b.xml.gz") == again
    assert gzip.decompress((tmp_path / "b.xml.gz").read_bytes()).startswith(b"<?xml")


@pytest.mark.parametrize("name", ["a\x00", "a\x1b", "a\ufffe", "a\ud800"])
def test_text_that_xml_cannot_hold(name: str) -> None:
    with pytest.raises(InputError, match="characters that XML can hold are expected"):
        format_platform(Platform(compute_hosts=(Host(name=name, speeds=(1.0,)),)))


@pytest.mark.parametrize("comment", ["a -- b", "ends with -"])
def test_comment_that_xml_cannot_hold(comment: str) -> None:
    with pytest.raises(InputError, match="'--' cannot stand in an XML comment"):
        format_platform(Platform(compute_hosts=()), comment=comment)
