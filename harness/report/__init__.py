"""What a run shows to people and to CI: the terminal, a JUnit file, an HTML page."""
