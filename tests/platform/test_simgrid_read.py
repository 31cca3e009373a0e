"""Reading platforms: what comes out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, read_platform
from qops_batsim.platform import Host, Link, Platform, Zone, parse_platform
from qops_batsim.platform.simgrid_write import format_platform
from support.platform_text import HEADER, TREE, parse, parse_zone


def host(name: str, role: str | None = None, speed: str = "1Gf") -> str:
    prop = "" if role is None else f'<prop id="role" value="{role}"/>'
    return f'<host id="{name}" speed="{speed}">{prop}</host>'


# These four were recorded on 128 hosts; the index names a platform of four hosts.
_ON_ANOTHER_PLATFORM = {"mixed_end", "query_energy", "same_end", "same_end2"}


def _recorded_sessions(directory: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each session's entry in the index and its first message's data."""
    for case in json.loads((directory / "cases.json").read_text()):
        with open(directory / "recorded" / f"{case['name']}.transcript.jsonl") as transcript:
            begin = json.loads(json.loads(next(transcript))["raw"])["events"][0]
        yield case, begin["data"]


def test_every_recorded_session_has_our_hosts(shared: Path) -> None:
    """Names, order, ids and properties as real Batsim sent them."""
    directory = shared / "batsim"
    compared = set()
    for case, begin in _recorded_sessions(directory):
        if case["name"] in _ON_ANOTHER_PLATFORM:
            continue
        platform = read_platform(directory / case["platform"])
        recorded = begin["compute_resources"]
        hosts = platform.compute_hosts[: len(recorded)]
        assert [ours.name for ours in hosts] == [resource["name"] for resource in recorded]
        assert [resource["id"] for resource in recorded] == list(range(len(hosts)))
        for ours, resource in zip(hosts, recorded, strict=True):
            # Batsim adds an empty role when there is none; 3.1.0 sends no zone properties.
            assert {"role": "", **ours.properties} == resource["properties"]
            assert ours.zone_properties == resource.get("zone_properties", {})
        assert len(begin["storage_resources"]) == len(platform.storage_hosts)
        assert platform.master is not None
        assert platform.master.name == "master_host"
        compared.add(case["platform"])
    assert len(compared) >= 3


def test_recorded_order_of_names(shared: Path) -> None:
    for _, begin in _recorded_sessions(shared / "batsim"):
        names = [resource["name"] for resource in begin["compute_resources"]]
        platform = parse_zone("".join(map(host, ["master_host", *names[::-1]])))
        assert [ours.name for ours in platform.compute_hosts] == names


def test_speeds_of_the_recorded_inputs(shared: Path) -> None:
    platform = read_platform(shared / "batsim/inputs/het4_nonet.xml")
    assert [host.speed for host in platform.compute_hosts] == [50e6, 100e6, 200e6, 400e6]


def test_tree() -> None:
    platform = parse(TREE)
    hosts = {host.name: host for host in platform.compute_hosts}
    assert list(hosts) == ["l1", "l2", "l3", "r1.x", "r2.x", "r3.x", "s1", "s2"]
    assert platform.master is None
    assert [zone.name for zone in platform.zones] == ["root", "left", "star"]
    assert [zone.parent for zone in platform.zones] == ["", "root", "root"]
    # Inner properties win over those of the zones around, as in Batsim.
    assert hosts["l1"].zone_properties == {"country": "inner", "owner": "root"}
    assert hosts["s1"].zone_properties == {"country": "outer", "owner": "root"}
    # Those of a cluster belong to its hosts and to it as a zone, as in SimGrid.
    assert hosts["r1.x"].properties == {"memory": "1024"}
    assert hosts["r1.x"].zone_properties == {
        "country": "outer",
        "owner": "root",
        "memory": "1024",
    }
    assert (hosts["r1.x"].cores, hosts["r1.x"].speed, hosts["r1.x"].zone) == (4, 2e9, "right")
    assert platform.links["wire"] == Link(name="wire", bandwidth=100e6, latency=1e-3)


def test_host_details() -> None:
    platform = parse_zone(
        '<host id="a" speed="100Mf, 50Mf,20Mf" pstate="1" core="8"><prop id="watts" value="7"/>'
        '<disk id="d" read_bw="1MBps" write_bw="1MBps"><prop id="x" value="y"/></disk></host>'
        '<host id="b" speed="100Mf,0f" cores="2"/>'
    )
    a, b = platform.compute_hosts
    assert (a.speeds, a.speed, a.power_state, a.cores) == ((100e6, 50e6, 20e6), 50e6, 1, 8)
    assert a.properties == {"watts": "7"}
    assert (b.speeds, b.speed, b.cores) == ((100e6, 0.0), 100e6, 2)


def test_older_names_and_deprecated_words() -> None:
    platform = parse(
        '<platform version="4"><AS id="z" routing="full">'
        '<AS id="y" routing="FULL"><host id="a" speed="5"/></AS>'
        '<AS id="x" routing="None"><host id="b" speed="5"/></AS>'
        '<link id="l" bandwidth="8" latency="2" sharing_policy="FULLDUPLEX"/>'
        '<ASroute src="y" dst="x" gw_src="a" gw_dst="b" symmetrical="yes">'
        '<link_ctn id="l" direction="UP"/></ASroute>'
        "</AS></platform>"
    )
    assert [zone.routing for zone in platform.zones] == ["Full", "Full", "None"]
    assert platform.links["l"].sharing_policy == "SPLITDUPLEX"
    assert platform.zones[0].routes[0].links == ("l_UP",)


def test_host_order_is_by_code_point_not_by_number() -> None:
    hosts = "".join(f'<host id="{n}" speed="1f"/>' for n in ("b", "h10", "é", "h2", "B", "_"))
    platform = parse_zone(hosts)
    assert [host.name for host in platform.compute_hosts] == ["B", "_", "b", "h10", "h2", "é"]


def test_roles() -> None:
    platform = parse_zone(
        host("boss", "master", "0f")
        + host("c", "")
        + host("a", "compute_node")
        + host("b")
        + host("disk2", "storage", "0f")
        + host("disk1", "storage")
        + host("d", "compute_node")
    )
    assert platform.master is not None
    assert platform.master.name == "boss"
    assert [h.name for h in platform.compute_hosts] == ["a", "b", "c", "d"]
    assert [h.name for h in platform.storage_hosts] == ["disk1", "disk2"]
    assert [h.role for h in platform.hosts()] == ["compute_node"] * 4 + ["storage"] * 2 + ["master"]
    # The text stays as it is: it is sent to decision modules.
    assert platform.compute_hosts[2].properties == {"role": ""}


def test_master_host() -> None:
    content = host("master_host") + host("a") + host("b")
    assert parse_zone(content).master is not None
    xml = f'<platform version="4.1"><zone id="x" routing="Full">{content}</zone></platform>'
    other = parse(xml, master_host="b")
    assert other.master is not None
    assert other.master.name == "b"
    assert [h.name for h in other.compute_hosts] == ["a", "master_host"]
    none = parse(xml, master_host="missing")
    assert none.master is None
    assert len(none.compute_hosts) == 3


def test_plain_gzip_and_other_encodings(tmp_path: Path) -> None:
    text = HEADER + TREE
    expected = parse(TREE)
    (tmp_path / "a.xml").write_text(text)
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "bom.xml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "wide.xml").write_bytes(text.encode("utf-16"))
    for name in ("a.xml", "a.xml.gz", "bom.xml", "wide.xml"):
        platform = read_platform(tmp_path / name)
        assert platform == expected
        assert platform.source == str(tmp_path / name)


def test_leading_empty_line_as_in_batsims_own_platforms() -> None:
    text = "\n" + HEADER + '<platform version="4.1"><zone id="z" routing="None">\n'
    platform = parse_platform((text + host("a") + "</zone></platform>").encode(), source="a.xml")
    assert len(platform.compute_hosts) == 1
    # Lines are counted from the start of the file all the same.
    with pytest.raises(InputError, match=r"a\.xml: line 6: <oops> is unknown"):
        parse_platform((text + "\n<oops/>").encode(), source="a.xml")


def test_comments_and_harmless_configuration_are_passed_over() -> None:
    platform = parse(
        '<platform version="4.1"><!-- a -->'
        '<config id="General"><prop id="contexts/stack-size" value="16"/></config>'
        f'<zone id="z" routing="None"><!-- & <b> -->{host("a")}</zone></platform>'
    )
    assert len(platform.compute_hosts) == 1


def test_equality_leaves_the_source_aside() -> None:
    one = parse(TREE)
    other = parse_platform((HEADER + TREE).encode(), source="b.xml")
    assert one == other
    assert one != parse_zone(host("a"))


def test_the_machine_of_hosts_and_clusters() -> None:
    """Only compute hosts count, in the order of ids."""
    prop = '<prop id="{}" value="{}"/>'.format
    amounts = prop("cores", 4) + prop("labels", "new") + prop("licence:x", 2)
    text = (
        '<platform version="4.1"><zone id="root" routing="Full"><zone id="z" routing="Full">'
        f'<host id="m" speed="1f">{prop("role", "master")}{prop("cores", "any")}</host>'
        f'<host id="d" speed="1f">{prop("role", "storage")}{prop("cores", -1)}</host>'
        f'<host id="c1" speed="1f">{prop("cores", 8)}{prop("memory", "2GiB")}</host></zone>'
        '<cluster id="c" prefix="c" suffix="" radical="0,2" speed="1f" bw="1Bps" lat="0s">'
        f"{amounts}</cluster></zone></platform>"
    )
    platform = parse(text)
    machine = platform.machine
    assert machine is not None
    assert machine is platform.machine
    assert machine.names == ("c0", "c1", "c2")
    assert (machine.kinds, machine.amounts) == (("cores", "memory"), ((4, 0), (8, 2**31), (4, 0)))
    assert (machine.labels, machine.licences) == ({"new": 0b101}, {"x": 4})
    assert parse_platform(format_platform(platform).encode(), source="b.xml").machine == machine


def test_batsim_5_numbers_the_hosts_of_a_machine_by_value() -> None:
    hosts = [Host(name=f"h{n}", speeds=(1.0,), properties={"cores": str(n)}) for n in (1, 10, 2)]
    platform = Platform(compute_hosts=tuple(hosts))
    assert platform.machine is not None
    assert platform.machine.amounts == ((1,), (10,), (2,))
    in_other_order = platform.numbered_by_value().machine
    assert in_other_order is not None
    assert in_other_order.amounts == ((1,), (2,), (10,))


def test_properties_that_are_no_amounts_stay_what_they_are() -> None:
    properties = {"memory": "plenty", "labels": ",", "weight": "none", "licence:": "?"}
    platform = Platform(
        compute_hosts=(
            Host(name="a", speeds=(1.0,), zone="z", properties=properties, coordinates=(0, 0, 0)),
        ),
        zones=(Zone(name="z", routing="Vivaldi"),),
    )
    assert platform.machine is None
    assert parse_platform(format_platform(platform).encode(), source="b.xml") == platform
