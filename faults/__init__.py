"""What can go wrong: scenario grammar, kinds of fault, known Zab bugs."""
