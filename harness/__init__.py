"""The harness: runs scenarios on a backend, judges them and reports the results."""
