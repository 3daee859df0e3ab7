"""What the pytest plugin does once a test asks for it.

The plugin itself, `zab_chaos.harness.testing.plugin`, is light to import.
"""
