import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from bahdanau_jax.runtime.signals import SIGNALS, Notice, Stopped


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def handlers_stay(signals_are_heard):
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_raises_where_nothing_is_to_be_saved(number):
    with Notice() as notice, pytest.raises(Stopped) as caught:
        send(number)
    assert notice.received
    asked_for = number in (signal.SIGUSR1, signal.SIGUSR2)
    assert caught.value.status == (0 if asked_for else 128 + number)
    assert signal.Signals(number).name in str(caught.value)
    assert not isinstance(caught.value, Exception)


def test_while_held_a_signal_is_noted_and_raises_in_work_that_can_be_repeated():
    with Notice() as notice:
        with notice.held():
            with notice.raising():
                pass
            send(signal.SIGTERM)
            assert notice.received
            with pytest.raises(Stopped), notice.raising():
                raise AssertionError("this work would be in vain")
            done = True
        assert done
        assert notice.stopped().status == 143
        with pytest.raises(Stopped):
            notice.check()


def test_a_signal_during_such_work_ends_it():
    with Notice() as notice, notice.held():
        with pytest.raises(Stopped), notice.raising():
            send(signal.SIGUSR1)
            raise AssertionError("goes on")
        assert notice.received


def test_what_the_caller_ignores_stays_ignored():
    former = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        with Notice() as notice:
            send(signal.SIGUSR2)
        assert not notice.received
    finally:
        signal.signal(signal.SIGUSR2, former)


def test_a_thread_that_may_not_listen_does_not():
    seen = []

    def work():
        with Notice() as notice, notice.held():
            seen.append(notice.received)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


TWICE = """
    import os, signal, sys, time
    from bahdanau_jax.runtime import signals as module
    module.REPEAT = float(sys.argv[1])
    with module.Notice() as notice, notice.held():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        print("saved", flush=True)
"""


@pytest.mark.parametrize(("repeat", "status", "out"), [(60, 0, "saved\n"), (0, -15, "")])
def test_a_second_signal_ends_the_process_unless_it_is_the_first_one_repeated(repeat, status, out):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TWICE), str(repeat)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, out, "")
