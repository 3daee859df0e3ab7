"""`python -m zab_chaos.harness` is `zab`."""

import sys

from zab_chaos.harness.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
