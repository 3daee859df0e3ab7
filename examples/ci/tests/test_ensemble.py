"""Tests of the ensemble itself: a scenario that comes with zab-chaos, and one of this project."""

import pytest


@pytest.mark.zab(scenario="tests/deploy.toml", seeds=range(3))
def test_a_rolling_deployment(zab_run):
    assert zab_run.property("recovery").verdict == "PASS"


@pytest.mark.zab(scenario="defects/ack-before-sync", defect="ack-before-sync", expect="VIOLATION", on="sim")
def test_the_alarm_works(zab_run):
    """Check the checker: with this known bug built into the nodes, the run must be a violation."""
    assert zab_run.property("committed stays").verdict == "VIOLATION"
