"""``python -m fairseq_ext.cli VERB``, for launchers that start Python themselves."""

from fairseq_ext.cli.main import main

if __name__ == "__main__":
    main()
