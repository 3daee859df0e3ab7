"""Traces of any number of runs, as tables; Zab's properties and the campaign's numbers, as Spark queries over them."""
