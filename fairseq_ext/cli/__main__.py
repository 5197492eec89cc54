"""``fairseq-ext``, also as ``python -m fairseq_ext.cli VERB`` for launchers that start Python themselves."""

import sys


def main() -> None:
    """Load the program and run it; Ctrl-C while it loads is no traceback either."""
    try:
        from fairseq_ext.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
