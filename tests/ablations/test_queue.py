"""Each cell once, whoever is killed meanwhile."""

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ablations.attempts import RETRIES
from ablations.config import RunConfig
from ablations.plan import Cell
from ablations.processes import machine_key, process_key
from ablations.queue import Queue

RESULT = {"metrics": [{"metric": "loss", "split": "validation", "value": 2.0}]}
DEAD = f"{machine_key()} {2**22 + 1} 1"  # no process has a number that high
fork = multiprocessing.get_context("fork")
OpenQueue = Callable[..., Queue]


def cells(count: int) -> list[Cell]:
    return [Cell(id=f"{n:012x}", config=RunConfig(seed=n), changes={}) for n in range(1, count + 1)]


@pytest.fixture(params=["sqlite", "postgresql"])
def open_queue(request: pytest.FixtureRequest, tmp_path: Path) -> OpenQueue:
    """Opens the same queue each time, as every process does for itself."""
    if request.param == "sqlite":
        return partial(Queue, tmp_path / "studies" / "test.sqlite", name="test")
    return partial(Queue, request.getfixturevalue("postgresql_server"), name=tmp_path.name)


@pytest.fixture
def queue(open_queue: OpenQueue) -> Queue:
    return open_queue()


def take_all(queue: Queue) -> list[str]:
    taken = []
    while claim := queue.claim():
        taken.append(claim.id)
        queue.finish(claim, RESULT)
    return taken


def test_cells_come_in_the_order_of_the_plan_each_once(queue: Queue) -> None:
    queue.fill(cells(4))
    queue.fill(cells(4))
    assert take_all(queue) == [cell.id for cell in cells(4)]
    assert queue.claim() is None
    assert queue.states() == {}


def test_claim_carries_the_cell(queue: Queue) -> None:
    changes = {"design.norm_position": "post", "dims.n_heads": 8, "dims.dropout": 0.1 + 0.2}
    queue.fill([Cell(id="a" * 12, config=RunConfig(seed=5), changes=changes)])
    claim = queue.claim()
    assert claim is not None
    assert (claim.id, claim.changes, claim.config["seed"]) == ("a" * 12, changes, 5)


def test_a_grown_plan_adds_its_new_cells_only(queue: Queue) -> None:
    queue.fill(cells(2))
    assert take_all(queue) == [cell.id for cell in cells(2)]
    queue.fill(cells(4)[2:])
    queue.fill(cells(4)[2:])
    assert take_all(queue) == [cell.id for cell in cells(4)[2:]]


def test_what_was_finished_since_the_plan_was_made_is_not_asked_for_again(queue: Queue) -> None:
    queue.fill(cells(2))
    taken = queue.claim()
    assert taken is not None
    queue.finish(taken, RESULT)
    queue.fill(cells(3), done=lambda cell_id: cell_id == taken.id)
    assert take_all(queue) == [cell.id for cell in cells(3)[1:]]


def test_what_waits_from_another_plan_is_taken_off(queue: Queue) -> None:
    queue.fill(cells(3))
    running = queue.claim()
    queue.fill(cells(3)[2:])
    assert running is not None
    assert queue.states() == {cells(3)[0].id: "running", cells(3)[2].id: "waiting"}


def test_a_finished_cell_whose_result_was_deleted_waits_again(queue: Queue) -> None:
    queue.fill(cells(1))
    take_all(queue)
    queue.fill(cells(1))
    assert take_all(queue) == [cells(1)[0].id]


def claim_and_write(open_queue: OpenQueue, output: Path) -> None:
    queue = open_queue()
    output.write_text("".join(f"{cell_id}\n" for cell_id in take_all(queue)))
    os._exit(0)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_eight_workers_at_once_on_a_new_storage(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    sqlite = tmp_path / "studies" / "new.sqlite"
    storage = sqlite if kind == "sqlite" else request.getfixturevalue("postgresql")
    open_queue = partial(Queue, storage, name="test")

    def fill_and_claim(number: int) -> None:
        open_queue().fill(cells(10))
        claim_and_write(open_queue, tmp_path / f"{number}.txt")

    processes = [fork.Process(target=fill_and_claim, args=(n,)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    taken = Counter("".join(f.read_text() for f in tmp_path.glob("*.txt")).split())
    # One that fills late finds some cells finished: here nothing but a result file would tell.
    assert set(taken) == {cell.id for cell in cells(10)}


def test_each_cell_goes_to_one_of_four_workers(open_queue: OpenQueue, tmp_path: Path) -> None:
    open_queue().fill(cells(16))
    files = [tmp_path / f"{n}.txt" for n in range(4)]
    processes = [fork.Process(target=claim_and_write, args=(open_queue, file)) for file in files]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    taken = "".join(file.read_text() for file in files).split()
    assert sorted(taken) == [cell.id for cell in cells(16)]


def claim_and_hang(open_queue: OpenQueue, folder: Path) -> None:
    open_queue().claim()
    (folder / "claimed").touch()
    time.sleep(60)


def kill_a_worker_in_its_cell(open_queue: OpenQueue, folder: Path) -> None:
    (folder / "claimed").unlink(missing_ok=True)
    process = fork.Process(target=claim_and_hang, args=(open_queue, folder))
    process.start()
    assert process.pid is not None
    while not (folder / "claimed").exists():
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def test_the_cell_of_a_killed_worker_waits_again_at_once(
    open_queue: OpenQueue, tmp_path: Path, queue: Queue
) -> None:
    queue.fill(cells(2))
    kill_a_worker_in_its_cell(open_queue, tmp_path)
    first, second = (cell.id for cell in cells(2))
    assert queue.states() == {first: "running", second: "waiting"}
    assert queue.reap() == [first]
    assert queue.reap() == []
    assert take_all(queue) == [second, first]


def test_a_cell_that_kills_its_workers_is_given_up(
    open_queue: OpenQueue, tmp_path: Path, queue: Queue
) -> None:
    queue.fill(cells(1))
    for _ in range(RETRIES + 1):
        assert queue.states() == {cells(1)[0].id: "waiting"}
        kill_a_worker_in_its_cell(open_queue, tmp_path)
        queue.reap()
    assert queue.states() == {}
    queue.fill(cells(1))
    assert take_all(queue) == [cells(1)[0].id]


def test_deaths_before_a_new_checkpoint_do_not_count(
    open_queue: OpenQueue, tmp_path: Path, queue: Queue
) -> None:
    queue.fill(cells(1))
    for _ in range(RETRIES + 2):
        claim = queue.claim()
        assert claim is not None
        queue.progress(claim)
        queue._storage.set_trial_user_attr(claim.trial_id, "worker", DEAD)
        assert queue.reap() == [claim.id]
    kill_a_worker_in_its_cell(open_queue, tmp_path)
    assert queue.reap() == [cells(1)[0].id]


@pytest.mark.parametrize("outcome", ["error", "returned", "death"])
def test_a_process_killed_while_it_ends_a_cell_loses_nothing(queue: Queue, outcome: str) -> None:
    queue.fill(cells(2))
    claim = queue.claim()
    assert claim is not None
    queue._end(claim.trial_id, outcome)  # and here it is killed
    assert list(queue.states()) == [cells(2)[1].id]
    queue.reap()
    assert queue.states() == {cell.id: "waiting" for cell in cells(2)}
    queue.reap()
    assert take_all(queue) == [cells(2)[1].id, cells(2)[0].id]


def test_a_cell_that_is_given_back_has_nothing_against_it(queue: Queue) -> None:
    queue.fill(cells(1))
    for _ in range(RETRIES + 2):
        claim = queue.claim()
        assert claim is not None
        queue.give_back(claim)
        queue.give_back(claim)
    assert take_all(queue) == [cells(1)[0].id]


def test_work_at_another_place_is_seen(queue: Queue) -> None:
    queue.fill(cells(2))
    assert not queue.others_work("here")
    queue.claim("here")
    assert not queue.others_work("here")
    queue.claim("there")
    assert queue.others_work("here")


def test_a_worker_killed_before_its_first_sign_of_life(open_queue: OpenQueue) -> None:
    queue = open_queue(heartbeat=1, grace=1)
    queue.fill(cells(1))
    with pytest.warns(UserWarning, match="Heartbeat"):
        queue._study.ask()
    wait_until(lambda: queue.reap() is not None and "waiting" in queue.states().values())
    assert take_all(queue) == [cells(1)[0].id]


def test_a_slow_living_worker_keeps_its_cell(open_queue: OpenQueue) -> None:
    queue = open_queue(heartbeat=1, grace=2)
    queue.fill(cells(1))
    claim = queue.claim()
    assert claim is not None
    with queue.alive(claim):
        for _ in range(6):
            time.sleep(0.5)
            queue.reap()
    assert queue.states() == {claim.id: "running"}
    queue.finish(claim, RESULT)
    assert queue.states() == {}


def test_a_worker_taken_for_dead_may_still_finish(open_queue: OpenQueue) -> None:
    queue = open_queue(heartbeat=1, grace=1)
    queue.fill(cells(1))
    claim = queue.claim()
    assert claim is not None
    wait_until(lambda: queue.reap() is not None and "waiting" in queue.states().values())
    queue.finish(claim, RESULT)
    assert queue.fail(claim) is False
    assert take_all(queue) == [claim.id]
    assert queue.states() == {}


def wait_until(condition, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.2)


def test_a_cell_that_raises_is_tried_again_a_few_times(queue: Queue) -> None:
    queue.fill(cells(2))
    taken, again = [], []
    while claim := queue.claim():
        taken.append(claim.id)
        again.append(queue.fail(claim))
    first, second = (cell.id for cell in cells(2))
    assert taken == [first, second] * (RETRIES + 1)
    assert again == [True, True] * RETRIES + [False, False]


def test_a_diverged_result_is_a_finished_cell(queue: Queue) -> None:
    queue.fill(cells(1))
    claim = queue.claim()
    assert claim is not None
    queue.finish(claim, {"metrics": []})
    assert queue.states() == {}


def test_process_keys_tell_the_dead_from_the_living() -> None:
    process = fork.Process(target=time.sleep, args=(60,))
    process.start()
    assert process.pid is not None
    key = process_key(process.pid)
    assert key == process_key(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: process_key(process.pid) != key)  # a zombie until it is waited for
    process.join()
    assert process_key(process.pid) == f"{process.pid} gone"
