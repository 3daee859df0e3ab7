"""Talking to one ensemble by hand: what can be said (`sentences`), and the shell in which it is said (`shell`)."""
