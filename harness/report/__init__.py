"""Reports of runs: on the terminal, as a JUnit file, as an HTML page."""
