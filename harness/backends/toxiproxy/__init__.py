"""The toxiproxy server of a run: found or fetched, started, and closed to strangers."""
