"""Many seeds of one scenario: swarm testing, guided by coverage, on all cores or on Spark."""
