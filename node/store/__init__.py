"""Durable state: disk, write-ahead log, snapshots, recovery."""
