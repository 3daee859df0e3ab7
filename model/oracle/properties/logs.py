"""The properties that runs with the evidence "logs" are not judged by, because servers' logs and clients' answers do not
show them."""

_SILENT = "ZooKeeper's servers do not say "
NOT_SHOWN = {
    "global primary order": "what a server has applied is read from its log, which is in the order of the zxids",
    "primary integrity": _SILENT + "what a leader had applied before its first broadcast",
    "prefix": _SILENT + "what a leader has proposed and nobody has logged",
    "causal order": _SILENT + "what a leader had applied when it proposed",
    "promises": _SILENT + "which leader they have promised an epoch",
    "synchronization": _SILENT + "when they join an epoch",
    "quorum durability": _SILENT + "when a transaction became durable",
    "disk": _SILENT + "when a transaction became durable; a follower may apply one before it has logged it",
    "channels": _SILENT + "which messages they have taken",
    "sanity": "ZooKeeper's own checks are in its logs, and are not read",
}  # the reason, by property
