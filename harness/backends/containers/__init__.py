"""The `containers` backend: a run's nodes and its toxiproxy in containers of a Docker engine on this machine."""
