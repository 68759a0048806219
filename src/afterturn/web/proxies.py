"""The client's address behind trusted proxies; a forged header cannot change it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.requests import HTTPConnection

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MOST_HOPS = 20
"""Addresses of ``X-Forwarded-For`` that are read, counted from the last one."""
_IPV6_PREFIX = 64
"""The bits of an IPv6 address that a provider assigns; its customer chooses the others."""


@dataclass(frozen=True, slots=True)
class Proxies:
    """``trusted``: the networks of proxies whose ``X-Forwarded-For`` is believed. Default: none."""

    trusted: Sequence[Network] = ()

    @classmethod
    def of(cls, networks: Iterable[str]) -> Proxies:
        """Parse texts such as ``10.0.0.0/8`` or ``192.0.2.7``. Raises ValueError."""
        return cls(tuple(ipaddress.ip_network(network, strict=False) for network in networks))

    def caller_of(self, request: HTTPConnection) -> str:
        """The key for rate limits: the client's address, of IPv6 its network; empty if there is none."""
        peer = request.client.host if request.client else ""
        return counted_by(self.client_of(peer, request.headers.getlist("x-forwarded-for")))

    def client_of(self, peer: str, forwarded: Sequence[str]) -> str:
        """The client's address, from the peer of the connection and the values of ``X-Forwarded-For``.

        Each proxy appends the address of its own peer. So the client is the last address that is not a trusted proxy;
        anything before it may be forged.
        """
        client = peer
        hops = [hop.strip() for value in forwarded[-_MOST_HOPS:] for hop in value.rsplit(",", _MOST_HOPS)]
        for hop in reversed(hops[-_MOST_HOPS:]):
            if not self._trusts(client) or (address := _address(hop)) is None:
                break
            client = str(address)
        return client

    def _trusts(self, host: str) -> bool:
        address = _address(host)
        return address is not None and any(address in network for network in self.trusted)


def counted_by(host: str) -> str:
    """The address; of IPv6 its /64 network, since one customer has all addresses in it."""
    address = _address(host)
    if not isinstance(address, ipaddress.IPv6Address):
        return host if address is None else str(address)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))


def _address(text: str) -> Address | None:
    """An address, with or without a port, as proxies write them: ``192.0.2.7:80``, ``[2001:db8::7]:80``."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
