"""Backends: the kinds of ensemble that scenarios are run on. `backend` has their interface, `registry` finds them by name."""
