import tests.fairseq_ready  # noqa: F401
