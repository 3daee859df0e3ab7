"""The simulated world around real processes: `zab run --on lockstep`.

The world of `model/` decides what is chance or time: when a process has booted, when it has a round, how long a sync takes,
what a link delivers, when the power goes. The nodes in it are OS processes (`python -m zab_chaos.node --lockstep`), each with
its disk in a folder, which do what the world asks over ZeroMQ and nothing else. So the same scenario and seed leave the same
bytes as in the simulator, made by real processes, and read by a real recovery after a real SIGKILL.
"""
