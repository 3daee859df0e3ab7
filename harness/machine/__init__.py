"""Access to this machine: its facts, ports, files, processes and signals."""
