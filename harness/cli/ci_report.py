"""The report of a command to CI, which has the command's error if that does not come to its end."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zab_chaos.harness.cli.failures import failure_message
from zab_chaos.harness.errors import BadInput, HarnessError, Interrupted
from zab_chaos.harness.machine.interrupt import Forced, Stopped
from zab_chaos.harness.report import ci
from zab_chaos.model.verdict import Outcome


@contextmanager
def ci_report(command: str, junit: Path | None) -> Iterator[ci.Report]:
    """Write the JUnit file, for which the command has called `ci.check_writable`, and the Markdown summary, at the end of the
    block.

    If the block raises, they have its error beside the cases so far; a mistake of the user (BadInput) leaves them as they
    were. Raises HarnessError also in place of an error that is not the harness's own.
    """
    report = ci.Report(command, junit=junit)
    try:
        yield report
    except BadInput:
        raise
    except (Interrupted, Stopped, Forced) as error:
        if report.error is None:  # else the command has said more
            report.interrupted(str(error) or "interrupted")
        _write_if_possible(report)
        raise
    except Exception as error:
        message = failure_message(error)
        report.error = ci.CommandError(Outcome.HARNESS_ERROR, message)
        _write_if_possible(report)
        raise HarnessError(message) from error
    ci.write_reports(report)


def _write_if_possible(report: ci.Report) -> None:
    """Write the report. If it can't be written, the error that the command ends with is more important."""
    with suppress(HarnessError):
        ci.write_reports(report)
