"""The measurements of `zab bench`: each is a function that returns figures."""
