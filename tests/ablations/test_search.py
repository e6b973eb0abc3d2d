"""The arms of a study are tuned on seeds of their own, then compared at their best."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ablations import run as run_module
from ablations.plan import Cell, Plan
from ablations.progress import Progress
from ablations.queue import Queue
from ablations.search import Range, parse_search
from ablations.stopping import PrunedError
from ablations.study import Study, load_study
from ablations.tasks import Task
from ablations.tuning import describe_tuning, is_hopeless, tuned_plan
from ablations.worker import queue_file, work
from tests.ablations.runs import config_of, run

STUDY = """
base: {task: sequences, budget.max_steps: 8, budget.validate_every: 2}
axes: {design.norm_position: [pre, post]}
seeds: [1, 2]
search:
  ranges: {optim.lr: {low: 1.0e-4, high: 1.0e-1, log: true}}
  trials: 8
"""
BEST = {"pre": 1e-2, "post": 1e-3}
RANGES = {"optim.lr": {"low": 1e-4, "high": 1e-1, "log": True}}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "tuned.yaml").write_text(STUDY)
    return load_study(str(tmp_path / "tuned.yaml"))


def loss_of(cell: Cell) -> float:
    best = BEST[cell.config.design.norm_position.name]
    return 1.0 + abs(math.log10(cell.config.optim.lr / best))


def finish(
    cell: Cell, runs_dir: Path, *, loss: float | None = None, diverged: bool = False
) -> None:
    folder = runs_dir / cell.id
    folder.mkdir(parents=True, exist_ok=True)
    value = loss_of(cell) if loss is None else loss
    metrics = [
        {"split": split, "metric": metric, "length": None, "value": known}
        for split, metric, known in (
            ("test", "loss", -value),  # whoever looked at it would choose the worst
            ("validation", "accuracy", -value),
            ("validation", "loss", value),
        )
    ]
    status = {"status": "diverged", "diverged_at_step": 3} if diverged else {"status": "finished"}
    record = {**status, "metrics": [] if diverged else metrics, "seconds": {"total": 1.0}}
    (folder / "result.json").write_text(json.dumps(record))


def run_all(study: Study, runs_dir: Path) -> list[dict[str, float]]:
    """Do what a sweep does, and give the rates of each round by arm."""
    rounds = []
    while (plan := tuned_plan(study, runs_dir=runs_dir)).is_tuning:
        rounds.append(rates(plan))
        for cell in plan.cells:
            finish(cell, runs_dir)
    return rounds


def rates(plan: Plan) -> dict[str, float]:
    return {c.config.design.norm_position.name: c.config.optim.lr for c in plan.cells}


def test_each_arm_is_compared_at_its_own_best(study: Study, tmp_path: Path) -> None:
    rounds = run_all(study, tmp_path)
    assert len(rounds) == 8
    assert {f.parent.name for f in tmp_path.glob("*/result.json")} != set()
    plan = tuned_plan(study, runs_dir=tmp_path)
    assert [(c.changes, c.config.seed) for c in plan.cells] == [
        ({}, 1),
        ({"design.norm_position": "post"}, 1),
        ({}, 2),
        ({"design.norm_position": "post"}, 2),
    ]
    for name, rate in rates(plan).items():
        tried = [chosen[name] for chosen in rounds]
        assert rate == min(tried, key=lambda r: abs(math.log10(r / BEST[name])))
        assert all(1e-4 <= r <= 1e-1 for r in tried)
    assert len({cell.id for cell in plan.cells}) == 4
    assert plan.missing(tmp_path) == plan.cells  # tuning seeds are others


def test_the_same_file_and_results_lead_to_the_same_proposals(study: Study, tmp_path: Path) -> None:
    rounds = run_all(study, tmp_path / "one")
    assert run_all(study, tmp_path / "two") == rounds
    assert rounds[0]["pre"] == rounds[0]["post"]
    files = sorted((tmp_path / "one").glob("*/result.json"))
    for file in files[::2]:  # what is lost is asked for again, and nothing else
        file.unlink()
    lost = {file.parent.name for file in files[::2]}
    while (plan := tuned_plan(study, runs_dir=tmp_path / "one")).is_tuning:
        assert {cell.id for cell in plan.cells} <= lost
        for cell in plan.cells:
            finish(cell, tmp_path / "one")
    assert rates(plan) == rates(tuned_plan(study, runs_dir=tmp_path / "two"))


def test_one_sampler_learns_and_one_draws(tmp_path: Path) -> None:
    def search(sampler: str) -> list[float]:
        file = tmp_path / f"{sampler}.yaml"
        text = STUDY.replace("trials: 8", f"trials: 20\n  sampler: {sampler}")
        file.write_text(text.replace("[pre, post]", "[pre]"))
        rounds = run_all(load_study(str(file)), tmp_path / sampler)
        return [abs(math.log10(chosen["pre"] / BEST["pre"])) for chosen in rounds[10:]]

    assert sum(search("tpe")) < sum(search("random")) - 2.0


def test_a_diverged_or_pruned_trial_never_wins(study: Study, tmp_path: Path) -> None:
    number = 0
    while (plan := tuned_plan(study, runs_dir=tmp_path)).is_tuning:
        for cell in plan.cells:
            if number == 3:
                finish(cell, tmp_path, diverged=True)
            elif number == 4:
                (tmp_path / cell.id).mkdir()
                (tmp_path / cell.id / "pruned.json").write_text('{"pruned": "at step 4"}')
                curve = "step,validation_loss\n2,0.1\n4,nan\n"
                (tmp_path / cell.id / "learning_curve.csv").write_text(curve)
            else:
                finish(cell, tmp_path, loss=5.0 - number if number < 3 else 9.0)
        number += 1
    best = tuned_plan(study, runs_dir=tmp_path).tunings
    assert [tuning.loss for tuning in best] == [3.0, 3.0]
    assert [(tuning.done, tuning.pruned) for tuning in best] == [(8, 1)] * 2


def test_an_arm_whose_trials_all_diverge_is_named(study: Study, tmp_path: Path) -> None:
    for _ in range(8):
        for cell in tuned_plan(study, runs_dir=tmp_path).cells:
            finish(cell, tmp_path, diverged=True)
    with pytest.raises(ValueError, match="no trial of the baseline ended with a finite"):
        tuned_plan(study, runs_dir=tmp_path)


def test_the_mean_over_the_tuning_seeds_decides(tmp_path: Path) -> None:
    text = STUDY.replace("trials: 8", "trials: 2\n  seeds: [7, 8]").replace("[pre, post]", "[pre]")
    (tmp_path / "two.yaml").write_text(text)
    study = load_study(str(tmp_path / "two.yaml"))
    losses = iter([[1.0, 8.0], [4.0, 4.0]])
    while (plan := tuned_plan(study, runs_dir=tmp_path)).is_tuning:
        assert [cell.config.seed for cell in plan.cells] == [7, 8]
        for cell, loss in zip(plan.cells, next(losses), strict=True):
            finish(cell, tmp_path, loss=loss)
    assert plan.tunings[0].loss == 4.0


def test_the_caption_says_how(study: Study, tmp_path: Path) -> None:
    run_all(study, tmp_path)
    text = describe_tuning(tuned_plan(study, runs_dir=tmp_path))
    start = (
        "Tuned in every arm, then its seeds run: optim.lr in 0.0001 to 0.1, log; tpe sampler, 8 "
        "trials, pruner none, tuning seeds 1000; the lowest validation loss won: baseline optim.lr "
    )
    assert text.startswith(start)
    assert "; design.norm_position=post optim.lr " in text


@pytest.mark.parametrize(
    ("value", "at_edge"),
    [(1e-4, True), (1.4e-4, True), (1.5e-4, False), (6e-2, False), (8e-2, True)],
)
def test_the_edge_is_a_twentieth_of_the_range(value: float, at_edge: bool) -> None:
    assert Range(low=1e-4, high=1e-1, log=True).is_at_edge(value) == at_edge


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranges": {}}, "search.ranges: name what is tuned"),
        ({"rangs": {}}, "'rangs' is no key of search; legal: ranges, sampler"),
        ({"sampler": "grid"}, "search.sampler: 'grid' is not legal; legal: tpe, random"),
        ({"pruner": "asha"}, "search.pruner: 'asha' is not legal; legal: none, median, hyperband"),
        ({"trials": 0}, "search.trials: 0; it must be a whole number, 1 or more"),
        ({"seeds": 1000}, "search.seeds: expected a list of values, found 1000"),
        ({"seeds": [5, 5]}, "search.seeds: 5 stands twice"),
        ({"seeds": [2]}, "search.seeds: 2 is a seed of the study"),
        ({"ranges": {"optim.rate": {"low": 1, "high": 2}}}, "'optim.rate' is no config path"),
        ({"ranges": {"optim.lr": {"low": 1, "high": 1}}}, "low must be below high"),
        ({"ranges": {"optim.lr": {"low": 0, "high": 1, "log": True}}}, "above 0 where log is true"),
        ({"ranges": {"design.position": {"low": 0, "high": 1}}}, "is no number; levels are axes"),
    ],
)
def test_what_is_wrong_with_a_search_is_said(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        parse_search({"ranges": RANGES, **change}, task=Task.sequences, seeds=(1, 2))


def test_what_is_searched_is_not_set_as_well(study: Study, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"optim\.lr is searched, and cannot be"):
        load_study(str(tmp_path / "tuned.yaml"), overrides={"optim.lr": 1e-3})


GOOD = [[2.0, 1.0, 0.5, 0.2]] * 6


@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_a_pruner_ends_what_does_worse_than_earlier_trials(pruner: str) -> None:
    earlier = {"pruner": pruner, "validations": 4, "curves": GOOD}
    assert is_hopeless(earlier, [3.0, 2.9, 2.8])
    assert not is_hopeless(earlier, [1.0, 0.5, 0.1])
    assert not is_hopeless({**earlier, "curves": []}, [3.0, 2.9, 2.8])


def test_a_hopeless_run_ends_and_can_be_run_in_full_later(tmp_path: Path) -> None:
    config = config_of("sequences")
    perfect = {"pruner": "median", "validations": 4, "curves": [[1e-6] * 4] * 6}
    with pytest.raises(PrunedError, match="at step 6"):  # an epoch has half an update less
        run(config, tmp_path, pruning=perfect)
    [file] = tmp_path.glob("*/pruned.json")
    assert json.loads(file.read_text()) == {"pruned": "at step 6"}
    assert not file.with_name("result.json").exists()
    assert run(config, tmp_path)["status"] == "finished"


def test_a_pruned_cell_leaves_the_queue_without_a_failure(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    told: list[Any] = []

    def run_cell(config: Any, *, pruning: Any, **_: Any) -> None:
        told.append(pruning)
        (tmp_path / cell.id).mkdir()
        (tmp_path / cell.id / "pruned.json").write_text('{"pruned": "at step 2"}')
        raise PrunedError("at step 2")

    monkeypatch.setattr(run_module, "run_cell", run_cell)
    config = config_of("sequences")
    pruning = {"pruner": "median", "validations": 4, "curves": GOOD}
    cell = Cell(id="abc", config=config, changes={}, pruning=pruning)
    queue = Queue(queue_file(tmp_path, "test"), name="test")
    queue.fill([cell])
    with Progress([cell], runs_dir=tmp_path) as progress:
        assert work("test", tmp_path, wandb=False) == 0
        progress.update(queue.states())
    assert told == [pruning]
    assert queue.states() == {}
    assert list(tmp_path.glob("*/failure-*.txt")) == []
    assert capsys.readouterr().out == "[1/1] pruned at step 2: abc baseline seed=1\n"


def test_a_sweep_tunes_first_and_says_so(ablate, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "tuned.yaml").write_text(STUDY.replace("trials: 8", "trials: 2"))
    launched: list[int] = []

    def launch(missing: list[Cell], **_: Any) -> None:
        launched.append(len(missing))
        for cell in missing:
            finish(cell, tmp_path / "runs")

    monkeypatch.setattr("ablations.launch.launch", launch)
    monkeypatch.setattr("ablations.commands.prepare", lambda *_, **__: None)
    code, out, error = ablate("table", "tuned.yaml")
    assert code == 2
    assert "tuned: tuning, 0 of 4 trials done in 2 arms; 'ablate sweep tuned.yaml' goes on" in error
    code, out, _ = ablate("sweep", "tuned.yaml")
    assert (code, launched) == (0, [2, 2, 4])
    assert "tuned: tuning, 2 of 4 trials done in 2 arms; 2 runs come next" in out
    assert "tuned: 4 cells: 4 finished" in out


def test_a_trial_that_fails_ends_the_sweep(ablate, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "tuned.yaml").write_text(STUDY)

    def launch(missing: list[Cell], **_: Any) -> None:
        folder = tmp_path / "runs" / missing[0].id
        folder.mkdir(parents=True)
        (folder / "failure-1.txt").write_text("MemoryError: too much\n")
        finish(missing[1], tmp_path / "runs")

    monkeypatch.setattr("ablations.launch.launch", launch)
    monkeypatch.setattr("ablations.commands.prepare", lambda *_, **__: None)
    code, out, _ = ablate("sweep", "tuned.yaml")
    assert code == 1
    assert "MemoryError: too much" in out
