"""Fault injection: the scenario grammar, the kinds of fault, the scheduler, and known Zab bugs."""
