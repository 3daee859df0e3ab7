"""An image is of exactly the code that nodes execute in it."""

import subprocess
import sys

from zab_chaos.harness.backends.containers import image

# A node imports its defect, too.
LOADED = """
import importlib, pkgutil, sys
import zab_chaos.node.__main__
from zab_chaos.faults import defects
for module in pkgutil.iter_modules(defects.__path__):
    importlib.import_module(f"{defects.__name__}.{module.name}")
print(*{name.split(".")[1] for name in sys.modules if name.startswith("zab_chaos.")})
"""


def test_the_tag_is_a_digest_of_all_packages_that_a_node_imports() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == set(image.EXECUTED)
