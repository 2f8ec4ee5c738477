import io
import os
import pty
import re
import subprocess
import sys
import textwrap
import time

from bahdanau_jax.terminal import PLAIN_INTERVAL, Counter, Progress, say, visible


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run_steps(progress, clock, steps, seconds, tokens=90, padded=100):
    for step in steps:
        clock.now += seconds
        progress.update(step, loss=2.0, tokens=tokens, padded=padded)


def test_the_first_line_comes_at_once_and_the_others_ten_seconds_apart():
    stream, clock = io.StringIO(), Clock()
    with Progress(100, stream, clock) as progress:
        run_steps(progress, clock, [1], 1.0)
        assert stream.getvalue().count("\n") == 1
        run_steps(progress, clock, range(2, 32), 1.0)
    lines = stream.getvalue().splitlines()
    assert [line.split("/")[0] for line in lines] == ["step 1", "step 11", "step 21", "step 31"]
    assert PLAIN_INTERVAL == 10.0


def test_speed_padding_and_time_left_follow_from_the_counts():
    clock = Clock()
    progress = Progress(100, io.StringIO(), clock)
    run_steps(progress, clock, range(1, 21), 0.5)
    # 90 real tokens of 100 every half second, and 80 steps of half a second still to go.
    assert progress.line() == ("step 20/100  loss 2.0000  180 tokens/s  padding 10.0%  0:40 left")


def test_speed_is_of_the_last_half_minute_and_not_of_the_whole_run():
    clock = Clock()
    progress = Progress(1000, io.StringIO(), clock)
    run_steps(progress, clock, range(1, 11), 10.0)
    run_steps(progress, clock, range(11, 111), 1.0)
    assert " 90 tokens/s " in progress.line()
    assert "14:50 left" in progress.line()


def test_a_resumed_run_counts_only_its_own_steps():
    clock = Clock()
    progress = Progress(1000, io.StringIO(), clock)
    run_steps(progress, clock, range(901, 911), 60.0)
    assert "1:30:00 left" in progress.line()


def test_nothing_is_divided_by_zero_before_there_are_two_moments():
    clock = Clock()
    progress = Progress(10, io.StringIO(), clock)
    assert progress.line() == "step 0/10"
    progress.update(1, loss=float("nan"), tokens=0, padded=0)
    assert progress.line() == "step 1/10  loss nan"


def test_everything_goes_to_standard_error(capsys):
    say("reading data")
    with Progress(10) as progress:
        progress.update(1, loss=1.0, tokens=5, padded=5)
        progress.message("evaluated: 3 [bold]")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "reading data",
        "step 1/10  loss 1.0000  padding 0.0%",
        "evaluated: 3 [bold]",
    ]


def test_a_dumb_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Progress(10, stream) as progress:
        progress.update(1, loss=1.0, tokens=5, padded=5)
        assert stream.getvalue() == "step 1/10  loss 1.0000  padding 0.0%\n"


def test_a_terminal_gets_one_live_line_with_messages_above_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream, clock = Terminal(), Clock()
    with Progress(100, stream, clock) as progress:
        run_steps(progress, clock, range(1, 51), 0.5)
        progress.message("dev/nll [per] token 1.5")
        assert stream.getvalue().count("dev/nll [per] token 1.5\n") == 1
        run_steps(progress, clock, range(51, 101), 0.5)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    last = text.replace("\r", "\n").strip().splitlines()[-1]
    assert last.startswith("step 100/100  loss 2.0000  180 tokens/s")


def test_results_on_standard_output_stay_clean_while_the_line_is_live():
    program = """
        from bahdanau_jax.terminal import Progress
        with Progress(2) as progress:
            progress.update(1, loss=1.0, tokens=5, padded=5)
            print("result")
            progress.update(2, loss=1.0, tokens=5, padded=5)
    """
    ours, theirs = pty.openpty()
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert process.stdout == b"result\n"
    assert b"step 2/2" in shown
    assert b"result" not in shown


def test_an_update_costs_microseconds():
    progress = Progress(1_000_000, io.StringIO())
    started = time.process_time()
    for step in range(20_000):
        progress.update(step, loss=1.0, tokens=5, padded=5)
    assert (time.process_time() - started) / 20_000 < 50e-6


def count(stream, out=None):
    clock = Clock()
    with Counter("lines", out, stream, clock) as counter:
        for done in range(1, 25):
            clock.now += 1.0
            counter.update(10 * done)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).replace("\r", "\n")


def test_a_counter_prints_a_line_every_ten_seconds_where_there_is_no_terminal():
    said = ["100 lines  10.0 lines/s", "200 lines  10.0 lines/s"]
    assert count(io.StringIO()).splitlines() == said


def test_a_counter_has_one_line_on_a_terminal_which_stays_as_it_was_last(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert count(Terminal()).strip().splitlines()[-1] == "240 lines  10.0 lines/s"


def test_a_counter_redraws_nothing_among_results_on_the_same_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert count(Terminal(), out=Terminal()).splitlines()[0] == "100 lines  10.0 lines/s"


def test_a_counter_of_what_is_over_at_once_shows_nothing(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Counter("lines", None, stream, Clock()) as counter:
        counter.update(3)
    assert stream.getvalue() == ""


def test_escape_sequences_are_spelt_out_and_text_is_not():
    hostile = "a\x1b]0;title\x07b\x9b2Jc\x7f\r\x00"
    assert visible(hostile) == r"a\x1b]0;title\x07b\x9b2Jc\x7f\r\x00"
    assert visible("é 你\u0301\t1\n") == "é 你\u0301\t1\n"
    assert visible("1\n2", lines=False) == r"1\n2"


def test_what_is_said_holds_no_escape_sequence():
    stream = io.StringIO()
    say("reading \x1b[31mred", stream)
    assert stream.getvalue() == "reading \\x1b[31mred\n"
