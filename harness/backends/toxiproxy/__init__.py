"""Finds or fetches the toxiproxy server of a run, starts it, and protects its HTTP interface."""
