"""`python -m zab_chaos.harness` is the same as the command `zab`."""

import sys

from zab_chaos.harness.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
