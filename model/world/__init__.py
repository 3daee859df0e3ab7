"""The simulated world: virtual time, machines with disks, links and clients."""
