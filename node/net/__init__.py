"""ZeroMQ: links with sessions, the client port, the control port."""
