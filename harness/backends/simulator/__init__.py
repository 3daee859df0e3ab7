"""The `sim` backend: the simulated world of `zab_chaos.model`, with the run's faults, load and records."""
