"""The oracle: what is known of a run, and the properties that it is held against."""
