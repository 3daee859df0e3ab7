"""What the conformance suite for backends says about a system that fails it."""

from pathlib import Path
from typing import Any, cast

import pytest

from tests.corpus.delivery import agreement_fork
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.harness.testing.conformance import require_pass
from zab_chaos.model.verdict import Verdict

pytest_plugins = ["pytester"]


class Ended:
    """An ensemble whose run is in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)

    def finish(self) -> Verdict:
        return judge(self.folder.path)


def test_a_violation_is_shown_in_words_with_its_folder(tmp_path: Path) -> None:
    agreement_fork().save(tmp_path)
    with pytest.raises(pytest.fail.Exception, match=r"(?s)agreement .*is violated.*" + str(tmp_path)):
        require_pass(cast(Any, Ended(tmp_path)))
