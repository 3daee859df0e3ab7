"""Signed TCP connections for holders of a key: the MD5 signature option (RFC 2385), which the kernel checks.

A listener that was given a key answers no segment without its signature, so nobody else can connect. That takes no
privilege and no tool, but Linux (4.13 or newer), and a kernel that has the option, as distributions' kernels do.
"""

import secrets
import socket
import struct
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection

TCP_MD5SIG_EXT = 32  # linux/tcp.h; the socket module does not name it
_PREFIX = 1  # TCP_MD5SIG_FLAG_PREFIX: the key is for all peers that begin so
_FORMAT = "=HH4s120x BBHi 80s"  # struct tcp_md5sig: sockaddr_storage, flags, prefix length, key length, interface, key

SocketOption = tuple[int, int, bytes]


def new_key() -> bytes:
    return secrets.token_bytes(40)


def option(key: bytes) -> SocketOption:
    """The socket option that signs all that is sent to any peer, and takes nothing unsigned from one."""
    packed = struct.pack(_FORMAT, socket.AF_INET, 0, bytes(4), _PREFIX, 0, len(key), 0, key)
    return socket.IPPROTO_TCP, TCP_MD5SIG_EXT, packed


def session(key: bytes | None) -> requests.Session:
    """For a server of this machine: no proxy for the web stands in between, and with a key all is signed."""
    made = requests.Session()
    made.trust_env = False
    if key is not None:
        made.mount("http://", SignedAdapter(key))
    return made


class SignedAdapter(HTTPAdapter):
    """`requests` over signed connections: mount it on a session."""

    def __init__(self, key: bytes) -> None:
        self._option = option(key)
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **keywords: Any) -> None:
        options = [*HTTPConnection.default_socket_options, self._option]
        super().init_poolmanager(*arguments, socket_options=options, **keywords)
