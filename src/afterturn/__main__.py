"""``python -m afterturn``: the same as the ``afterturn`` command."""

from afterturn.cli import main

main()
