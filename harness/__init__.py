"""The harness: run scenarios on a backend, judge the runs, and report the results."""
