"""The workload of a run: the clients' operations, drawn or written in the scenario, and the open loop that sends them."""
