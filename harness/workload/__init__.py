"""What clients ask for: drawn or written operations, the open loop that sends them, and the log of what became of them."""
