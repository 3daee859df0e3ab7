"""Apache ZooKeeper itself as a subject: released servers as processes, their links, their evidence, their clients."""
