"""`zab doctor`: the checks of this machine, and how their findings are shown."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from zab_chaos.harness import doctor


def test_this_machine_is_healthy_and_the_findings_are_json(tmp_path: Path) -> None:
    findings = doctor.examine(tmp_path / "not" / "yet" / "there")
    answer = json.loads(json.dumps(doctor.as_json(findings)))
    states = {finding["name"]: finding["state"] for finding in answer["findings"]}
    for needed in ("packages", "CURVE", "results", "disk sync", "ports"):
        assert states[needed] in ("ok", "warning"), needed
    assert list(tmp_path.iterdir()) == []  # the checks create nothing


def test_a_results_folder_that_is_a_file_is_missing_and_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for finding in (doctor.folder(file), doctor.disk(file)):
        assert finding.state == "missing"
        assert "--results" in finding.mend


def test_a_named_toxiproxy_that_does_not_exist_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAB_TOXIPROXY", "/nowhere/toxiproxy-server")
    finding = doctor.toxiproxy()
    assert finding.state == "missing"
    assert "/nowhere/toxiproxy-server" in finding.found


def test_a_toxiproxy_of_another_version_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    binary = tmp_path / "toxiproxy-server"
    binary.write_text("#!/bin/sh\necho toxiproxy-server version 2.1.4\n")
    binary.chmod(0o755)
    monkeypatch.setenv("ZAB_TOXIPROXY", str(binary))
    finding = doctor.toxiproxy()
    assert finding.state == "warning"
    assert "2.1.4" in finding.found


def test_packages_that_only_some_commands_need_are_named_with_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"pipeline", "shell"} <= {finding.name for finding in doctor.examine(Path())}
    monkeypatch.setattr(doctor.environment, "package", lambda name: "4.0" if name == "scipy" else None)
    finding = doctor.pipeline()
    assert (finding.state, finding.mend) == ("absent", "pip install 'zab-chaos[pipeline]'")
    assert finding.found == "only `zab analyze` and `--master` need it; not installed: pyspark"
    assert (doctor.shell().state, doctor.shell().mend) == ("absent", "pip install 'zab-chaos[shell]'")
    monkeypatch.setattr(doctor.environment, "package", lambda name: "4.0")
    assert (doctor.pipeline().state, doctor.pipeline().found) == ("ok", "pyspark 4.0, scipy 4.0")


def test_a_long_path_is_not_cut_off() -> None:
    path = "/a-folder/with-a-name-that-is-longer-than-the-terminal-is-wide/toxiproxy-server"
    out = io.StringIO()
    doctor.show([doctor.Finding("toxiproxy", "ok", f"2.12.0 at {path}")], Console(file=out, width=60))
    assert path in "".join(out.getvalue().split())


@pytest.mark.parametrize("folder", ["/some/[folder]/x", "/some/[/folder]"])
def test_brackets_in_a_path_are_shown(folder: str) -> None:
    out = io.StringIO()
    doctor.show([doctor.Finding("results", "ok", f"{folder} is writable")], Console(file=out))
    assert f"{folder} is writable" in out.getvalue()


def test_the_remedy_of_a_missing_part_is_shown() -> None:
    findings = [
        doctor.Finding("java", "absent", "not here", "get java"),
        doctor.Finding("disk", "missing", "full", "df -h"),
    ]
    assert not doctor.healthy(findings)
    assert doctor.healthy(findings[:1])
    out = io.StringIO()
    doctor.show(findings, Console(file=out, width=80))
    assert "disk: df -h" in out.getvalue()
    assert out.getvalue().rstrip().endswith("Not ready: fix what is missing.")
