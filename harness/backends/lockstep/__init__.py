"""The `lockstep` backend: real processes in simulated time, `zab run --on lockstep` (docs/lockstep.md).

The world of `zab_chaos.model.world` decides everything that is chance or time: when a process has booted, when it executes a
round, how long a sync takes, what a link delivers, when the power is cut. The nodes are OS processes
(`python -m zab_chaos.node --lockstep`), each with its disk in a folder. They do only what the world requests over ZeroMQ. So
the same scenario and seed leave the same bytes as in the simulator, but written by real processes, and read by a real recovery
after a real SIGKILL.
"""
