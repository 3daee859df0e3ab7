"""The command line: one module for each command; `app` declares the options."""
