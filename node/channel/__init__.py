"""The channels between nodes (DSN 2011, section II), sans-I/O: driven by ZeroMQ or by the simulator."""
