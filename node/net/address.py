"""Binds sockets to addresses, with error messages for people."""

from typing import Any

import zmq


class AddressInUse(Exception):
    """The address to listen on is in use. A node ends with exit code 75."""


class AddressError(Exception):
    """The address to listen on is not an address of this machine, or not of the form host:port."""


def bind(socket: zmq.Socket[Any], address: str, purpose: str) -> None:
    """Listen on `address` (host:port); `purpose` names the port in errors.

    If that fails, close the socket, and raise AddressInUse or AddressError.
    """
    try:
        socket.bind(f"tcp://{address}")
    except zmq.ZMQError as error:
        socket.close()
        if error.errno == zmq.EADDRINUSE:
            raise AddressInUse(
                f"cannot listen on {address} for {purpose}: another process does already; end it or choose another port"
            ) from None
        raise AddressError(
            f"cannot listen on {address} for {purpose}: {error.strerror}; an address is host:port of this machine,"
            " like 127.0.0.1:21001"
        ) from None
