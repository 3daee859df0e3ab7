"""Without an extra, a command that needs it names the command that installs it; all other commands work."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from zab_chaos import __version__
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.extras import MissingExtra, extra

ROOT = Path(__file__).parents[2]


def zab_without(package: str, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    """Run `zab` in a Python that can't import `package`."""
    program = (
        f"import sys; sys.modules[{package!r}] = None; from zab_chaos.harness.cli.entry import main; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], stdin=stdin, capture_output=True, text=True, cwd=ROOT, timeout=120
    )


@pytest.mark.parametrize(
    ("package", "arguments", "named"),
    [
        ("docker", ("run", "steady-state", "--on", "containers"), "pip install 'zab-chaos[containers]'"),
        ("docker", ("image",), "pip install 'zab-chaos[containers]'"),
        ("pyspark", ("analyze", "{run}"), "pip install 'zab-chaos[pipeline]'"),
        ("pyspark", ("explore", "steady-state", "--master", "local"), "pip install 'zab-chaos[pipeline]'"),
    ],
)
def test_a_command_that_needs_an_extra_names_it(
    package: str, arguments: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    results = ["--results", str(tmp_path)] if arguments[0] in ("run", "explore") else []
    if "{run}" in arguments:
        assert main(["run", "steady-state", "--on", "sim", "--results", str(tmp_path), "--quiet"]) == 0
        arguments = ("analyze", str(tmp_path), "--out", str(tmp_path / "out"))
    done = zab_without(package, *arguments, *results)
    assert done.returncode == 4, done.stderr
    assert f"needs {package}, which is not installed: {named}" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_the_prompt_of_the_client_needs_an_extra(tmp_path: Path) -> None:
    asked = ("client", "1", "--results", str(tmp_path))
    ours, terminal = pty.openpty()
    try:
        typed = zab_without("prompt_toolkit", *asked, stdin=terminal)
    finally:
        os.close(ours)
        os.close(terminal)
    piped = zab_without("prompt_toolkit", *asked)
    assert typed.returncode == piped.returncode == 4
    assert "needs prompt_toolkit, which is not installed: pip install 'zab-chaos[shell]'" in typed.stderr
    assert "no ensemble" in piped.stderr  # that is what is missing first


@pytest.mark.parametrize("package", ["docker", "pyspark"])
def test_doctor_and_clean_work_without_an_extra(package: str, tmp_path: Path) -> None:
    doctor = zab_without(package, "doctor", "--results", str(tmp_path))
    assert "Ready to run." in doctor.stdout, doctor.stderr
    clean = zab_without(package, "clean", "--results", str(tmp_path))
    assert clean.returncode == 0, clean.stderr
    if package == "docker":
        assert "pip install 'zab-chaos[containers]'" in doctor.stdout
        assert "pip install 'zab-chaos[containers]'" in clean.stdout


def test_a_failed_import_of_our_own_is_not_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere") as mistake, extra("containers", "this"):
        import zab_chaos.nowhere  # type: ignore[import-not-found]  # noqa: F401
    assert not isinstance(mistake.value, MissingExtra)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"zab-chaos {__version__}\n"
