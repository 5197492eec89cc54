"""The one error a user's input can cause."""


class InputError(SystemExit):
    """Something the user gave cannot be used; the message says what, where, and how to mend it.

    Deriving from ``SystemExit`` makes every program end with that one line on stderr and status 1,
    also under fairseq's own command lines, whose ``except Exception`` clauses would otherwise bury it
    in a chain of tracebacks.
    """
