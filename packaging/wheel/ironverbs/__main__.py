"""The command ``ironverbs``, which replaces this process."""

import os
import signal
import sys

from ironverbs import command


def main():
    """Never returns."""
    # What Python ignores would stay ignored in the program.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execv(command(), ["ironverbs", *sys.argv[1:]])
    except OSError as why:
        sys.exit(f"ironverbs: {command()}: {why.strerror}")


if __name__ == "__main__":
    main()
