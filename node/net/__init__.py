"""ZeroMQ: the sockets of links, the client port and the control port."""
