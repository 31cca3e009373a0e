"""Endpoints: what may be connected to, and listened at."""

from __future__ import annotations

import ipaddress
import os
import stat

from qops_batsim.errors import InputError, shown


def tcp_address(endpoint: str) -> tuple[str, str] | None:
    """Return host and port of a TCP endpoint, None for an IPC one."""
    transport, separator, address = endpoint.partition("://")
    if transport == "ipc" and separator and address and "\0" not in address:
        return None
    host, _, port = address.rpartition(":")
    is_port = port == "*" or (port.isascii() and port.isdigit() and int(port[:9]) < 1 << 16)
    if transport != "tcp" or not host or not is_port:
        raise InputError(
            f"{shown(endpoint)} is no endpoint; tcp://HOST:PORT (port 0 to 65535) or ipc://PATH "
            "is expected"
        )
    return host, port


def endpoint_to_bind(endpoint: str, any_interface: bool) -> str:
    """Return the address for an endpoint to listen at, unless others may come in unasked."""
    address = tcp_address(endpoint)
    if address is None:
        _refuse_other_files(endpoint.removeprefix("ipc://"))
        return endpoint
    host, port = address
    if host == "localhost":
        return f"tcp://127.0.0.1:{port}"
    if not any_interface and not _is_loopback(host):
        raise InputError(
            f"{shown(endpoint)} is open to other machines, and serves each that connects; "
            "tcp://127.0.0.1:PORT, or --any-interface to allow it, is expected"
        )
    return endpoint


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _refuse_other_files(path: str) -> None:
    """Refuse a path at which there is something else: ZeroMQ would remove it."""
    if path.startswith("@"):
        return  # Linux's abstract names are no files.
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # Nothing there, or ZeroMQ will say what is wrong.
    if not stat.S_ISSOCK(mode):
        raise InputError(f"ipc://{path}: the file exists and is no socket; a new name is expected")
