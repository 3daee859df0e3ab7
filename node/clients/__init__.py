"""The clients of a node: their protocol and connections, their sessions, and the application that serves them."""
