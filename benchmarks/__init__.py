"""Single measurements, each a function that returns figures; `zab bench` runs them together."""
