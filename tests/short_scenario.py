"""A scenario of some seconds, for tests of what is run again and again. The fixture `short` has it as a file."""

SHORT = """
[scenario]
name = "short"
about = "A crash under a light load."
nodes = 3
duration = 3
record = false

[workload]
rate = 20
keys = 2

[[fault]]
at = 1
do = "crash"
target = "leader"
for = 0.5
"""
