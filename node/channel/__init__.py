"""What makes a link a channel (DSN 2011, section II), without sockets: the servers' links and the simulated ones use it."""
