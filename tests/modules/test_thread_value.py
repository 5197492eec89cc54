from threading import Thread

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
