"""One Zab server: protocol core, durable store, network, tree. It imports none of the project's other packages."""
