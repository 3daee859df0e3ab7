"""Protects the port of a program without authentication: from then on it accepts only connections with a key.

The program is a child process and does not notice. The kernel gives us a copy of its listening socket (pidfd_getfd(2), which is
allowed to whoever may trace the process), and the key is set on that copy (`zab_chaos.faults.tcp_signature`).
"""

import ctypes
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from zab_chaos.faults import tcp_signature
from zab_chaos.harness.machine.connections import sockets

PIDFD_GETFD = 438  # the same on every architecture


def is_listening(pid: int, port: int) -> bool:
    """Return whether the process listens on the port."""
    return any(it.status == psutil.CONN_LISTEN for it in _sockets(pid, port))


def protect(pid: int, port: int) -> bytes | None:
    """Set a new key on the process's listening socket, cut the connections that are open already, and return the key.

    Return None if the kernel or its settings (Yama, a container's filter) do not allow it.
    """
    key = tcp_signature.new_key()
    try:
        with _opened(pid) as process:
            for found in _sockets(pid, port):
                if found.status == psutil.CONN_LISTEN:
                    with _copy(process, found.fd) as listening:
                        listening.setsockopt(*tcp_signature.option(key))
            for found in _sockets(pid, port):
                if found.status != psutil.CONN_LISTEN:
                    with _copy(process, found.fd) as connected:
                        connected.shutdown(socket.SHUT_RDWR)
    except OSError:
        return None
    return key


def _sockets(pid: int, port: int) -> list[Any]:
    """Return the process's sockets on the port, as psutil has them."""
    return [it for it in sockets(pid) if it.laddr and it.laddr.port == port]


@contextmanager
def _opened(pid: int) -> Iterator[int]:
    """Yield a pidfd of the process. Raises OSError."""
    if sys.platform != "linux":
        raise OSError("only Linux has pidfds")
    process = os.pidfd_open(pid)
    try:
        yield process
    finally:
        os.close(process)


def _copy(process: int, descriptor: int) -> socket.socket:
    """Return a copy of the socket with this descriptor in the process, which keeps its own. Raises OSError."""
    copy = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, descriptor, 0)
    if copy < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return socket.socket(fileno=copy)
