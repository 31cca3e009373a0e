"""Reading platforms: every mistake is one clear error."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, read_platform
from qops_batsim.limits import MAX_HOSTS
from qops_batsim.platform import parse_platform
from support.platform_text import HEADER, TREE, parse, parse_zone

A = '<host id="a" speed="1Gf"/>'
B = '<host id="b" speed="1Gf"/>'
LINK = '<link id="l" bandwidth="1MBps" latency="1ms"/>'
DUPLEX = '<link id="d" bandwidth="1MBps" latency="1ms" sharing_policy="SPLITDUPLEX"/>'
ROUTE = '<route src="a" dst="b"><link_ctn id="l"/></route>'


def cluster(**changes: str) -> str:
    attributes = {
        "id": "c",
        "prefix": "n",
        "suffix": "",
        "radical": "0-3",
        "speed": "1Gf",
        "bw": "1GBps",
        "lat": "1us",
        **changes,
    }
    return "<cluster " + " ".join(f'{name}="{value}"' for name, value in attributes.items()) + "/>"


def error_in(xml: str) -> str:
    with pytest.raises(InputError) as caught:
        parse(xml)
    message = str(caught.value)
    assert message.startswith("a.xml: ")
    assert "\n" not in message
    return message


def error_in_zone(content: str, routing: str = "Full") -> str:
    with pytest.raises(InputError) as caught:
        parse_zone(content, routing)
    return str(caught.value)


# The header takes two lines, <platform> and <zone> the next two: the content is on line 5.
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('<host speed="1f"/>', "line 5: <host>: attribute id is missing"),
        ('<host id="" speed="1f"/>', "line 5: <host>: id is empty; a name"),
        ('<host id="a"/>', "line 5: <host id='a'>: attribute speed is missing"),
        (
            '<host id="a" power="1e9"/>',
            "line 5: <host id='a'>: attribute speed is missing: power is its name before version 4",
        ),
        ('<host id="a" speed="5X"/>', "line 5: <host id='a'>: speed is '5X'; a speed: a number"),
        ('<host id="a" speed="1Gf,"/>', "speed is ''; a speed: a number"),
        ('<host id="a" speed="0f"/>', "<host id='a'>: speed is 0; more than 0"),
        ('<host id="a" speed="-1Gf"/>', "speed is '-1Gf'"),
        ('<host id="a" speed="1Gf,0f" pstate="1"/>', "speed is 0; more than 0"),
        ('<host id="a" speed="1Gf" pstate="1"/>', "pstate is '1'; a whole number from 0 to 0"),
        ('<host id="a" speed="1Gf" core="0"/>', "core is '0'; a whole number from 1 to 1000000"),
        ('<host id="a" speed="1Gf" cores="1.5"/>', "cores is '1.5'; a whole number from 1"),
        ('<host id="a" speed="1Gf" core="1" cores="1"/>', "both core and cores are given"),
        ('<host id="a" speed="1f" coordinates="1 2"/>', "coordinates is '1 2'; three numbers"),
        ('<host id="a" speed="1f" coordinates="1 2 nan"/>', "is '1 2 nan'; three numbers"),
        ('<host id="a" speed="1f" sped="2f"/>', "attribute sped is unknown; did you mean 'speed'?"),
        (A + A, "line 5: <host id='a'>: the name 'a' is given twice; hosts, routers, zones"),
        ('<host id="z" speed="1f"/>', "the name 'z' is given twice"),
        (A + '<router id="a"/>', "<router id='a'>: the name 'a' is given twice"),
        (
            '<host id="a" speed="1f"><prop id="x" value="1"/><prop id="x" value="2"/></host>',
            "<prop id='x'>: given twice in <host>; once",
        ),
        (
            f'{A}\n<host id="b" speed="1f"><prop id="cores" value="-1"/></host>',
            "a.xml: line 6: <host id='b'>: property cores is '-1'; a whole number from 0 to 1000",
        ),
        (
            '<host id="a" speed="1f"><prop id="memory" value="1 parsec"/></host>\n'
            '<host id="b" speed="1f"><prop id="gpus:v100" value="1"/></host>',
            "a.xml: line 5: <host id='a'>: property memory is '1 parsec'; a size: a number with B",
        ),
        (
            '<host id="a" speed="1f"><prop id="role" value="boss"/></host>',
            "<host id='a'>: property role is 'boss'; compute_node, master, storage or nothing",
        ),
        (
            '<host id="a" speed="1f"><prop id="role" value="storage,master"/></host>',
            "<host id='a'>: property role is 'storage,master'; one role",
        ),
        *(
            (
                f'<host id="a" speed="1f"><prop id="role" value="{role}"/></host>',
                f"<host id='a'>: property role is '{role}'; one role",
            )
            # At each of them the real Batsim 4.2.1 ends with "Cannot create any role".
            for role in ("master,master", "compute_node, compute_node", "master,", ",storage")
        ),
        *(
            (
                f'<host id="master_host" speed="1f"><prop id="role" value="{role}"/></host>',
                f"property role is '{role}'; none is expected, as Batsim adds the role master to",
            )
            for role in ("storage", "master", "master,master")
        ),
        (
            '<host id="a" speed="1f"><prop id="role" value=" master"/></host>',
            "property role is ' master'; compute_node, master, storage or nothing",
        ),
        (
            '<host id="a" speed="1f"><prop id="role" value="master"/></host>'
            '<host id="b" speed="1f"><prop id="role" value="master"/></host>',
            "a.xml: hosts 'a' and 'b' are both master (the host named 'master_host' is",
        ),
        (
            '<host id="master_host" speed="1f"/>'
            '<host id="a" speed="1f"><prop id="role" value="master"/></host>',
            "a.xml: hosts 'a' and 'master_host' are both master (the host named 'master_host' is",
        ),
        ('<host id="master_host" speed="1f"/>', "a.xml: no compute host; at least one"),
        ("", "a.xml: no compute host"),
        ('<link id="l" bandwidth="1"/><link id="l" bandwidth="1"/>', "link 'l' is given twice"),
        ('<link id="l" bandwidth="0Bps"/>', "<link id='l'>: bandwidth is '0Bps'; more than 0"),
        ('<link id="l" bandwidth="1MBps" latency="1min"/>', "latency is '1min'; a duration"),
        (
            '<link id="l" bandwidth="1MBps" sharing_policy="WIFI"/>',
            "sharing_policy is 'WIFI'; one of SHARED, FATPIPE, SPLITDUPLEX",
        ),
        (LINK + A + '<route src="a" dst="b"><link_ctn id="l"/></route>', "dst is 'b'; a host or"),
        (A + B + '<route src="a" dst="b"/>', "from 'a' to 'b': no link; at least one <link_ctn>"),
        (
            A + B + '<route src="a" dst="b"><link_ctn id="l"/></route>',
            "<route> from 'a' to 'b': <link_ctn id='l'>; a link of this platform",
        ),
        (
            DUPLEX + A + B + '<route src="a" dst="b"><link_ctn id="d"/></route>',
            "<link_ctn id='d'>: direction is 'NONE'; UP or DOWN is expected, since the link is",
        ),
        (
            LINK + A + B + '<route src="a" dst="b"><link_ctn id="l" direction="UP"/></route>',
            "<link_ctn id='l'>: direction is 'UP'; NONE or nothing",
        ),
        (
            LINK + A + B + '<route src="a" dst="b"><link_ctn id="l" direction="up"/></route>',
            "direction is 'up'; UP, DOWN or NONE",
        ),
        (LINK + A + B + ROUTE + ROUTE, "given twice; routes are symmetrical unless"),
        (
            LINK + A + B + ROUTE + '<route src="b" dst="a"><link_ctn id="l"/></route>',
            "<route> from 'b' to 'a': given twice",
        ),
        (
            LINK + A + B + '<route src="a" dst="b" symmetrical="maybe"><link_ctn id="l"/></route>',
            "symmetrical is 'maybe'; YES or NO",
        ),
        (cluster(radical="3-1"), "<cluster id='c'>: radical is '3-1': '3-1' ends before it starts"),
        (cluster(radical="x"), "<cluster id='c'>: radical is 'x'; whole numbers and ascending"),
        (cluster(radical="0-3,2"), "<cluster id='c'>: the name 'n2' is given twice"),
        (cluster(speed="0f"), "<cluster id='c'>: speed is 0; more than 0"),
        (cluster(bw="1GB"), "<cluster id='c'>: bw is '1GB'; a bandwidth"),
        (cluster(bb_lat="1us"), "<cluster id='c'>: bb_lat is given without bb_bw"),
        (cluster(topology="TORUS"), "topology is 'TORUS'; FLAT is expected, since no other"),
        (
            cluster(topology="FAT_TREE", topo_parameters="1;4;1;1"),
            "topology is 'FAT_TREE'; FLAT",
        ),
        (cluster(sharing_policy="X"), "sharing_policy is 'X'; one of SPLITDUPLEX, SHARED, FATPIPE"),
        (A + cluster(), "<cluster id='c'>: <host> and <cluster> in one zone; in SimGrid a zone"),
        ('<peer id="p"/>', "line 5: <peer> is not supported: give hosts with coordinates"),
        ('<include file="b.xml"/>', "<include> is not supported: no other file is ever read"),
        ('<trace id="t"/>', "<trace> is not supported: the speeds and links of a platform do not"),
        ('<storage id="s"/>', "<storage> is not supported: SimGrid has removed it"),
        ('<hots id="a"/>', "line 5: <hots> is unknown; did you mean 'host'?"),
        ("<host id='a' speed='1f'><link/></host>", "<link> inside <host>; <prop>, <disk> is acc"),
        ("<router id='r'><prop/></router>", "<prop> inside <router>; nothing"),
        (A + "some text" + B, "line 5: text 'some text' inside <zone>; only elements"),
        (
            '<host id="a" speed="1f" speed_file="x.trace"/>',
            "<host id='a'>: speed_file is 'x.trace'; traces of changing speeds",
        ),
        (
            LINK + '<host_link id="a" up="l" down="l"/>' + A,
            "<host_link id='a'>: zone 'z' has routing Full; host links are accepted with Cluster",
        ),
        ('<backbone id="b" bandwidth="1" latency="0"/>', "with routing Cluster; zone 'z' has"),
        ('<cabinet id="c" prefix="" suffix="" radical="1"/>', "<cabinet>"),
    ],
)
def test_content(content: str, message: str) -> None:
    found = error_in_zone(content)
    assert message in found
    assert found.startswith("a.xml: ")
    assert "\n" not in found


@pytest.mark.parametrize(
    ("content", "routing", "message"),
    [
        (A, "Vivaldi", "<host id='a'>: attribute coordinates is missing; zone 'z' has routing Viv"),
        (A, "Wifi", "<zone id='z'>: routing is 'Wifi'; one of Full, None, Vivaldi, Cluster, Floyd"),
        (LINK + A + B + ROUTE, "None", "zone 'z' has routing None, which takes no such routes"),
        (LINK + A + B + ROUTE, "Cluster", "zone 'z' has routing Cluster, which takes no such rou"),
        ('<zone id="y" routing="None"/>', "Cluster", "inside zone 'z' with routing Cluster, which"),
        (cluster(), "Vivaldi", "<cluster id='c'>: inside zone 'z' with routing Vivaldi, which"),
        (A + '<host_link id="a" up="x" down="x"/>', "Cluster", "up is 'x'; a link of this platf"),
        (A + LINK + '<host_link id="b" up="l" down="l"/>', "Cluster", "id is 'b'; a host of zone"),
        (
            A + DUPLEX + '<host_link id="a" up="d" down="d"/>',
            "Cluster",
            "up is 'd'; a link of this platform is expected (NAME_UP and NAME_DOWN of a split",
        ),
        (
            '<backbone id="x" bandwidth="1" latency="0"/><backbone id="y" bandwidth="1" '
            'latency="0"/>',
            "Cluster",
            "zone 'z' has routing Cluster and backbone 'x'",
        ),
    ],
)
def test_routings(content: str, routing: str, message: str) -> None:
    assert message in error_in_zone(content, routing)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ('src="x" dst="y" gw_src="a" gw_dst="q"', "gw_dst is 'q'; a host or router of zone 'y'"),
        ('src="x" dst="y" gw_src="b" gw_dst="b"', "gw_src is 'b'; a host or router of zone 'x'"),
        ('src="x" dst="z" gw_src="a" gw_dst="b"', "dst is 'z'; a zone or cluster inside zone 'z'"),
        ('src="a" dst="y" gw_src="a" gw_dst="b"', "src is 'a'; a zone or cluster inside zone 'z'"),
        ('src="x" dst="y"', "<zoneRoute>: attribute gw_src is missing"),
    ],
)
def test_routes_between_zones(attributes: str, message: str) -> None:
    zones = f'<zone id="x" routing="Full">{A}</zone><zone id="y" routing="Full">{B}</zone>{LINK}'
    content = f'{zones}<zoneRoute {attributes}><link_ctn id="l"/></zoneRoute>'
    assert message in error_in_zone(content)


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("<html/>", "line 3: the outermost element is <html>; <platform>"),
        (f'<zone id="z" routing="Full">{A}</zone>', "outermost element is <zone>"),
        (
            "<platform/>",
            "line 3: <platform>: version is ''; 4 or 4.1",
        ),
        (
            '<platform version="3"><AS id="z" routing="Full"><host id="a" power="1"/></AS>'
            "</platform>",
            "version is '3'; 4 or 4.1 (older files have other units and names; SimGrid's "
            "simgrid_update_xml converts them) is expected",
        ),
        ('<platform version="5"/>', "version is '5'; 4 or 4.1"),
        ('<platform version="4.1"></platform>', "no compute host"),
        (
            '<platform version="4.1"><zone id="y" routing="None"/><zone id="z" routing="None"/>'
            "</platform>",
            "<zone id='z'>: a second outermost zone; one",
        ),
        (
            '<platform version="4.1"><config><prop id="network/model" value="CM02"/></config>'
            "</platform>",
            "<prop id='network/model'>: configuration 'network/model' would change the simulation",
        ),
        ('<platform version="4.1"><zone id="z"', "column"),
        ('<platform version="4.1"><zone id="z" routing="Full">', "not XML (no element found)"),
        ('<platform version="4.1"></zone>', "line 3, column 27: not XML (mismatched tag)"),
        ('<platform version="4.1">' + "<zone id='z' routing='Full'>" * 2, "given twice"),
        (
            '<platform version="4.1">'
            + "".join(f"<zone id='z{n}' routing='Full'>" for n in range(100)),
            "more than 64 elements inside each other",
        ),
    ],
)
def test_documents(xml: str, message: str) -> None:
    assert message in error_in(xml)


def test_properties_of_shared_hosts_in_a_cluster() -> None:
    message = error_in_zone(
        cluster().replace("/>", '><prop id="gpus:v100" value="two"/></cluster>')
    )
    assert "<cluster id='c'>: property 'gpus:v100' is 'two'; a whole number from 0" in message


def test_a_radical_is_bounded_before_hosts_are_made() -> None:
    message = error_in_zone(cluster(radical="0-999999999"))
    assert f"1000000000 hosts; at most {MAX_HOSTS} are accepted" in message


def _document(subset: str, name: str = "a") -> str:
    return (
        f'<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "x.dtd" [\n{subset}\n]>\n'
        f'<platform version="4.1"><zone id="z" routing="Full"><host id="{name}" speed="1f"/></zone>'
        "</platform>"
    )


@pytest.mark.parametrize(
    ("subset", "name"),
    [
        (
            '<!ENTITY e0 "ha">\n'
            + "\n".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10)),
            "&e9;",
        ),
        ('<!ENTITY secret SYSTEM "file:///etc/passwd">', "&secret;"),
        ('<!ENTITY % all SYSTEM "http://localhost/evil.dtd">\n%all;', "a"),
        ('<!ENTITY picture SYSTEM "p.gif" NDATA gif>', "a"),
    ],
)
def test_entities_are_refused(subset: str, name: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_platform(_document(subset, name).encode(), source="a.xml")
    assert "a.xml: line 3: entity '" in str(caught.value)
    assert "entities are not accepted" in str(caught.value)


def test_an_entity_without_declaration_is_refused() -> None:
    """The parser alone would take the host's name for ab."""
    assert "a.xml: line 5: entity 'foo' is not declared; &amp;" in error_in_zone(
        '<host id="a&foo;b" speed="1f"/>'
    )
    platform = parse_zone('<!-- R&D &x; --><host id="a&amp;b&#33;" speed="1f"/>')
    assert platform.compute_hosts[0].name == "a&b!"


def test_the_document_type_definition_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A definition next to the file would change what the file says."""
    (tmp_path / "x.dtd").write_text('<!ATTLIST host core CDATA "64">')
    (tmp_path / "a.xml").write_text(_document("").replace("[\n\n]", ""))
    monkeypatch.chdir(tmp_path)
    assert read_platform("a.xml").compute_hosts[0].cores == 1


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    whole = (HEADER + TREE).encode()

    def error(content: bytes, **options: int) -> str:
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_platform(path, **options)
        assert str(path) in str(caught.value)
        return str(caught.value)

    assert "not XML" in error(b"\x00\x01\xff" * 100)
    assert "line 1, column 1: not XML" in error(b"\x93NUMPY garbage")
    assert "not XML (no element found)" in error(b"")
    assert "not XML (no element found)" in error(whole[: whole.index(b"<cluster")])
    assert "not XML" in error(whole[: len(whole) // 2])
    assert "truncated gzip" in error(gzip.compress(whole)[:200])
    assert "not XML" in error(whole.replace(b"root", b"r\xfft"))
    assert "cannot be decoded" in error(b"<?xml version='1.0' encoding='klingon'?><platform/>")
    assert "larger than 1000 bytes" in error(whole, max_bytes=1000)
    assert "larger than 1000 bytes" in error(gzip.compress(whole), max_bytes=1000)
    with pytest.raises(InputError, match=r"missing\.xml: no such file"):
        read_platform(tmp_path / "missing.xml")
    with pytest.raises(InputError, match="is a directory"):
        read_platform(tmp_path)


_WHOLE = (HEADER + TREE).encode()


@given(st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    """Anything but a platform or an InputError would be a defect."""
    start = data.draw(st.integers(min_value=0, max_value=len(_WHOLE)))
    length = data.draw(st.integers(min_value=0, max_value=20))
    filling = data.draw(
        st.binary(max_size=10) | st.sampled_from((b"<zone/>", b'"', b">", b"0", b"</host>"))
    )
    try:
        parse_platform(_WHOLE[:start] + filling + _WHOLE[start + length :], source="a.xml")
    except InputError as error:
        message = str(error)
    else:
        return
    assert message.startswith("a.xml: ")


@given(st.binary(max_size=200))
def test_garbage_is_refused(content: bytes) -> None:
    with pytest.raises(InputError):
        parse_platform(content, source="a.xml")
