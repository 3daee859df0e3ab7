"""The deterministic model: judges and simulates what the nodes do."""
