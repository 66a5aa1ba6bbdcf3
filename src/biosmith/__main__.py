"""`python -m biosmith`."""

import sys

from biosmith.cli import main

sys.exit(main())
