"""The oracle: it collects the facts of a run and checks them against the properties."""
