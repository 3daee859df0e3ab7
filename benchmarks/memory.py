"""Measures the memory of nodes with a long history: the log below a snapshot must not stay in memory."""

from pathlib import Path

from benchmarks.ensemble import BenchmarkEnsemble
from benchmarks.figures import Figure, Scale

SAMPLES = 20  # readings of the memory during the writes
MIB = 2**20


def memory(folder: Path, scale: Scale) -> list[Figure]:
    """Return the resident memory of each node after all writes, and the most during them. Raises HarnessError."""
    with BenchmarkEnsemble(folder, scale.nodes) as ensemble:
        leader = ensemble.start()
        seen = [ensemble.memory()]
        with ensemble.writer(leader, scale.outstanding) as loop:
            loop.create_keys(scale.keys)
            for _ in range(SAMPLES):
                loop.writes(scale.history // SAMPLES, scale.keys, scale.payload)
                seen.append(ensemble.memory())
    figures = [Figure(name="transactions", value=scale.history, unit="")]
    for node in seen[0]:
        role = "leader" if node == leader else "follower"
        at_end, most = seen[-1][node] / MIB, max(sample[node] for sample in seen) / MIB
        figures.append(Figure(name=f"node {node} ({role}) at the end", value=at_end, unit="MiB"))
        figures.append(Figure(name=f"node {node} ({role}) at most", value=most, unit="MiB"))
    return figures
