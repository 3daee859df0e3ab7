"""zab-chaos: a Zab ensemble of real processes, broken on purpose, and a verdict on whether Zab's promises held.

The packages in this folder are links to the project's top-level folders; everything is imported by the names they have here.
"""

__version__ = "0.1.0"
