"""What makes a link a channel (DSN 2011, section II), sans-I/O: driven by ZeroMQ, or by the simulated world."""
