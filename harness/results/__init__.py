"""What a run leaves behind: its folder, and what is read from it again."""
