"""`python -m harness` is `zab`."""

import sys

from harness.entry import main

if __name__ == "__main__":
    sys.exit(main())
