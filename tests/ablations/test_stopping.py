"""Asked once, asked twice."""

import os
import signal

import pytest

from ablations.stopping import Stop


def test_the_second_ctrl_c_interrupts_and_the_first_says_so(capsys) -> None:
    with Stop("stopping") as stop:
        assert not stop.asked
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked
        assert capsys.readouterr().err == "stopping\n"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_sigterm_asks_as_often_as_it_comes(capsys) -> None:
    with Stop("stopping") as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked
    assert capsys.readouterr().err == ""


def test_signals_are_given_back_and_taken_again_only_meanwhile() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Stop() as stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stop.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked
    stop.listen()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
