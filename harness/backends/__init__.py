"""What a run's nodes are: processes, containers, simulated, or processes in lockstep. `registry` names them."""
