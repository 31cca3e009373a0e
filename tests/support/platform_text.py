"""Platform files for tests."""

from __future__ import annotations

from qops_batsim.platform import Platform, parse_platform

HEADER = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
"""

TREE = """<platform version="4.1">
<zone id="root" routing="Full">
  <prop id="country" value="outer"/>
  <prop id="owner" value="root"/>
  <zone id="left" routing="Floyd">
    <prop id="country" value="inner"/>
    <link id="wire" bandwidth="100MBps" latency="1ms"/>
    <link id="pair" bandwidth="50MBps" latency="2ms" sharing_policy="SPLITDUPLEX"/>
    <host id="l1" speed="1Gf"/>
    <host id="l2" speed="1Gf"/>
    <host id="l3" speed="1Gf"/>
    <router id="door"/>
    <route src="l1" dst="l2"><link_ctn id="wire"/></route>
    <route src="l2" dst="l3"><link_ctn id="pair" direction="UP"/></route>
    <route src="l3" dst="door"><link_ctn id="wire"/></route>
  </zone>
  <cluster id="right" prefix="r" suffix=".x" radical="1-3" speed="2Gf" core="4"
           bw="125MBps" lat="50us" bb_bw="1GBps" bb_lat="10us"
           loopback_bw="6GBps" loopback_lat="1us" limiter_link="200MBps">
    <prop id="memory" value="1024"/>
  </cluster>
  <zone id="star" routing="Cluster">
    <link id="up" bandwidth="10MBps" latency="3ms"/>
    <link id="down" bandwidth="20MBps" latency="4ms"/>
    <link id="both" bandwidth="30MBps" latency="5ms" sharing_policy="SPLITDUPLEX"/>
    <host id="s1" speed="1Gf"/>
    <host id="s2" speed="1Gf"/>
    <router id="hub"/>
    <host_link id="s1" up="up" down="down"/>
    <host_link id="s2" up="both_UP" down="both_DOWN"/>
    <backbone id="spine" bandwidth="1GBps" latency="100us"/>
  </zone>
  <link id="wan" bandwidth="5MBps" latency="10ms"/>
  <link id="lane" bandwidth="7MBps" latency="20ms"/>
  <link id="short_cut" bandwidth="9MBps" latency="30ms"/>
  <zoneRoute src="left" dst="right" gw_src="door" gw_dst="rright_router.x">
    <link_ctn id="wan"/>
  </zoneRoute>
  <zoneRoute src="right" dst="star" gw_src="rright_router.x" gw_dst="hub" symmetrical="NO">
    <link_ctn id="wan"/><link_ctn id="lane"/>
  </zoneRoute>
  <zoneRoute src="star" dst="right" gw_src="hub" gw_dst="rright_router.x" symmetrical="NO">
    <link_ctn id="lane"/>
  </zoneRoute>
</zone>
</platform>
"""
"""Every kind of zone, link and route that hosts can be reached by."""


def parse(xml: str, *, master_host: str = "master_host") -> Platform:
    """Read the text of a platform file named a.xml."""
    return parse_platform((HEADER + xml).encode(), source="a.xml", master_host=master_host)


def parse_zone(content: str, routing: str = "Full") -> Platform:
    """Read a platform of one zone z."""
    return parse(
        f'<platform version="4.1">\n<zone id="z" routing="{routing}">\n{content}\n</zone>\n'
        "</platform>"
    )
