"""The protocol's transcripts: what is done, and line for line what the protocol does then; and what performs them."""
