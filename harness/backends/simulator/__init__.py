"""The `sim` backend: runs scenarios in the simulated world of `zab_chaos.model.world`, in virtual time."""
