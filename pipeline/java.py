"""Finds the Java for Spark, checks its version, and names the command that installs it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 17  # Spark 4 runs on nothing older


class JavaMissing(Exception):
    """There is no Java that Spark can run on. The text names the command that installs one."""


def find() -> str:
    """The `java` that Spark will use. Raises JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if path is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no `java` on the PATH"
        raise JavaMissing(f"the pipeline needs Java {OLDEST} or newer, and {where}. Install it: {remedy()}")
    return path


def version(path: str) -> str:
    """The first line of `java -version`. Raises JavaMissing if it does not run, or is too old."""
    try:
        told = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissing(f"{path} does not run: {error}. Install another one: {remedy()}") from error
    number = re.search(r'version "(\d+)', told)
    if number is not None and int(number[1]) < OLDEST:
        raise JavaMissing(f"{path} is Java {number[1]}; the pipeline needs {OLDEST} or newer. Install it: {remedy()}")
    return told.splitlines()[0] if told else path


def remedy() -> str:
    """The command that installs Java on this machine."""
    if sys.platform == "darwin":
        return f"brew install openjdk@{OLDEST}"
    if shutil.which("apt-get"):
        sudo = "" if os.geteuid() == 0 else "sudo "
        return f"{sudo}apt-get install -y openjdk-{OLDEST}-jre-headless"
    if shutil.which("dnf"):
        return f"sudo dnf install -y java-{OLDEST}-openjdk-headless"
    return f"install a Java {OLDEST} runtime, and set JAVA_HOME to it"
