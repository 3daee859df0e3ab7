"""The deterministic model: the simulator, the oracle that judges runs, and the replay of recorded lives."""
