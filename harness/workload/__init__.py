"""What clients ask for: operations, drawn or written down, and the open loop that sends them."""
