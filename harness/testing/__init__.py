"""What the pytest plugin does once a test asks for it. The plugin itself, `harness.pytest_plugin`, is light to import."""
