"""The simulator: virtual time, nodes with their disks, the links between them, and clients' connections."""
