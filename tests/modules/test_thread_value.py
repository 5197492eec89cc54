from threading import Thread

import pytest

from fairseq_ext.modules.thread_value import ThreadValue


def test_each_thread_has_its_own() -> None:
    value: ThreadValue[int] = ThreadValue()
    seen: list[int | None] = []
    with value.during(1):
        thread = Thread(target=lambda: seen.append(value.value))
        thread.start()
        thread.join()
        assert value.value == 1
    assert seen == [None]


def test_it_ends_with_its_block() -> None:
    value: ThreadValue[int] = ThreadValue()
    with value.during(1):
        with pytest.raises(KeyError), value.during(2):
            raise KeyError
        assert value.value == 1
    assert value.value is None
