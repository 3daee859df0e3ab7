"""The Spark pipeline of `zab analyze`: tables, verdicts, metrics and comparison of any number of runs."""
