"""TCP connections that only holders of a key can open: the MD5 signature option (RFC 2385), which the kernel checks.

A listener with a key answers no segment without a valid signature, so nobody else can connect. This needs no privilege and
no tool, but Linux 4.13 or newer and a kernel with this option, which the kernels of distributions have.
"""

import secrets
import socket
import struct
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection

TCP_MD5SIG_EXT = 32  # linux/tcp.h; the socket module does not name it
_PREFIX = 1  # TCP_MD5SIG_FLAG_PREFIX: the key applies to all peers whose address has this prefix
_FORMAT = "=HH4s120x BBHi 80s"  # struct tcp_md5sig: sockaddr_storage, flags, prefix length, key length, interface, key

SocketOption = tuple[int, int, bytes]


def new_key() -> bytes:
    """Return a new random key."""
    return secrets.token_bytes(40)


def option(key: bytes) -> SocketOption:
    """Return the socket option that signs everything sent to any peer, and accepts nothing unsigned."""
    packed = struct.pack(_FORMAT, socket.AF_INET, 0, bytes(4), _PREFIX, 0, len(key), 0, key)
    return socket.IPPROTO_TCP, TCP_MD5SIG_EXT, packed


def session(key: bytes | None) -> requests.Session:
    """Return a session for a server on this machine: without web proxies, and signed if there is a key."""
    created = requests.Session()
    created.trust_env = False
    if key is not None:
        created.mount("http://", SignedAdapter(key))
    return created


class SignedAdapter(HTTPAdapter):
    """An adapter for `requests` with signed connections; to be mounted on a session."""

    def __init__(self, key: bytes) -> None:
        self._option = option(key)
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **keywords: Any) -> None:
        options = [*HTTPConnection.default_socket_options, self._option]
        super().init_poolmanager(*arguments, socket_options=options, **keywords)
