"""Finds the Java for Spark and ZooKeeper, checks its version, and names the command that installs it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 17  # Spark 4 runs on nothing older


class JavaMissing(Exception):
    """There is no Java that is new enough. The message has the command that installs one."""


def find(user: str = "the pipeline", oldest: int = OLDEST) -> str:
    """Return the path of the `java` that `user` (as named in errors) will run. Raises JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin") if home else os.environ.get("PATH", os.defpath))
    if path is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no `java` on the PATH"
        raise JavaMissing(f"{user} needs Java {oldest} or newer, and {where}. Install it: {install_command()}")
    return path


def version(path: str, user: str = "the pipeline", oldest: int = OLDEST) -> str:
    """Return the line that `java -version` prints about its version. Raises JavaMissing if it does not run, or is too old."""
    try:
        output = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissing(f"{path} does not run: {error}. Install another one: {install_command()}") from error
    number = re.search(r'version "(?:1\.)?(\d+)', output)
    if number is not None and int(number[1]) < oldest:
        raise JavaMissing(
            f"{path} is Java {number[1]}; {user} needs {oldest} or newer. Install it: {install_command()}"
        )
    return next(
        (line for line in output.splitlines() if "version" in line), path
    )  # after those about JAVA_TOOL_OPTIONS


def install_command() -> str:
    """Return the command that installs Java on this machine."""
    if sys.platform == "darwin":
        return f"brew install openjdk@{OLDEST}"
    if shutil.which("apt-get"):
        sudo = "" if os.geteuid() == 0 else "sudo "
        return f"{sudo}apt-get install -y default-jre-headless"  # no version is in all releases; this is 17 or newer
    if shutil.which("dnf"):
        return "sudo dnf install -y java-21-openjdk-headless"
    return f"install a Java {OLDEST} runtime, and set JAVA_HOME to it"
