"""Tells clients apart by their addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence


def client_of(peer: Sequence[object] | None) -> str:
    """Returns the name of a client.

    Of IPv6 these are the first 64 bits of the address, because one machine may use all addresses with them.

    Args:
        peer: the address of the other end of a connection, its port and more. None = unknown.
    """
    host = str(peer[0]).partition("%")[0] if peer else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))
