"""The checker of the state that a scenario expects at the end."""

import re

import msgspec

from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.verdict import Judgement

SHOWN = 30  # characters of a value
NO_TEXT = "\ufffd"  # in place of bytes that are no text
LOAD_DATA = re.compile(r"\d+\.\d+\..*")  # the load's own data begins with the client and the number of the write


class ExpectedState(Checker):
    """The scenario's [expect.state]: at the end every node holds one of the allowed values, and all hold the same one.

    Verifies what the nodes answered when they had converged. If a value could not be read, nothing is known. If a fault was
    not confirmed, other values prove nothing: this was not the run that the scenario describes.
    """

    name = "expected state"
    source = "the scenario"
    statement = "At the end all nodes hold the same data, and it is what the scenario expects."
    rests_on_absence = False
    _differ = False  # what nodes hold, at some path

    def at_end(self) -> None:
        try:
            expected = msgspec.convert(self.facts.run.expect.get("state") or {}, dict[str, list[str | None]])
        except msgspec.ValidationError as error:
            self.unknown.append(f"run.json, expect.state: {error}")
            return
        if not expected:
            return
        milestone = self.facts.milestones.get("state")
        held = (milestone and milestone.held) or {}
        self.checked = len(expected) * len(held)
        for path, allowed in sorted(expected.items()):
            found = {node: values[path] for node, values in sorted(held.items()) if path in values}
            values = set(found.values())
            if len(values) > 1 or not values <= set(allowed):
                words = ", ".join(f"node {node} {_value_text(value)}" for node, value in found.items())
                allowed_words = " or ".join(map(_value_text, allowed))
                self.findings.add(f"{path}: {words}; all must have {allowed_words}", [milestone])
                self._differ |= len(values) > 1
        unread = not held or any(path not in values for path in expected for values in held.values())
        if unread and not self.findings:
            self.unknown.append(f"{self.name} is unknown: the nodes did not converge, or did not answer")

    def judgement(self) -> Judgement:
        found = super().judgement()
        as_described = self._differ or all(fault.confirmed for fault in self.facts.injects)
        return Judgement.UNKNOWN if found is Judgement.VIOLATION and not as_described else found


def _value_text(value: str | None) -> str:
    if value is None:
        return "no such znode"
    text, binary, _ = value.partition(NO_TEXT)
    if binary:
        load = "of the load" if LOAD_DATA.fullmatch(text) else "not text"
        return f"{text[:SHOWN]!r}... ({load})"
    return repr(value) if len(value) <= SHOWN else f"{value[:SHOWN]!r}..."
