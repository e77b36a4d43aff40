"""`python -m andiron`: the command line."""

import sys

from .tools.cli import program

sys.exit(program())
