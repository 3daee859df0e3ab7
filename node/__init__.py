"""One Zab server: protocol core, durable store, network, tree. Imports none of the other rooms."""
