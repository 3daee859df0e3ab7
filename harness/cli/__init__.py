"""The command line: one module a command, the options in `app`."""
