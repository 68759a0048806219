"""What the local profile starts on this machine, and stops again.

The functions here find ports of this machine's own address.
"""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Below 32768, where the system takes its own ports from."""


def free_port() -> int:
    """A port that is free now; another process may take it before it is used."""
    while True:
        port = random.choice(_PORTS)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
