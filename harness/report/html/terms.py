"""Explains the names of the protocol's messages and variables (DSN 2011, Table 1) where a page's text has them."""

import re

from zab_chaos.harness.report.html.markup import Html, element, join

TERMS = {
    "f.p": "the highest epoch that the node has promised to a leader (accepted epoch)",
    "f.a": "the epoch of the leader from which the node last took a history (current epoch)",
    "VOTE": "election: for whom the sender votes",
    "CEPOCH": "discovery: a follower tells the leader the highest epoch that it has promised",
    "NEWEPOCH": "discovery: the leader proposes its epoch",
    "ACK-E": "discovery: a follower promises the epoch, and tells the outline of its history",
    "FETCH": "discovery: the leader asks for the history that it chose",
    "HISTORY": "discovery: the history that the leader asked for",
    "NEWLEADER": "synchronization: the leader sends its initial history",
    "ACK-LD": "synchronization: the follower has the initial history on disk",
    "COMMIT-LD": "synchronization: the initial history is committed",
    "PROPOSE": "broadcast: the leader sends transactions to accept",
    "ACK": "broadcast: the sender has everything up to this transaction on disk",
    "COMMIT": "broadcast: everything up to this transaction is to be delivered",
    "CONFIRM": "the leader asks whether the receiver still follows it in this epoch",
    "ACK-CONFIRM": "the sender still follows the leader in this epoch",
    "MEMBER": "the receiver, which had lost its disk, may count again",
}
_TERM = re.compile(rf"(?<![\w.-])({'|'.join(sorted(map(re.escape, TERMS), key=len, reverse=True))})(?![\w-])")


def explained(words: str) -> Html:
    """Return the words with an explanation, on pointing, of each message and variable of the protocol."""
    parts = _TERM.split(words)  # every second part is a term
    return join(*(element("abbr", part, title=TERMS[part]) if at % 2 else part for at, part in enumerate(parts)))
