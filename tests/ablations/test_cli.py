import json
import subprocess
import sys

import pytest

from ablations import cli
from ablations.plan import make_plan
from ablations.queue import Queue
from ablations.study import load_study
from tests.ablations.tiny import STUDY, corpus


def finish(folder, cells, status="finished"):
    for cell in cells:
        path = folder / "runs" / cell.id
        path.mkdir(parents=True)
        (path / "result.json").write_text(json.dumps({"status": status}))


def tiny_cells(tmp_path):
    return make_plan(load_study(str(tmp_path / "tiny.yaml"))).cells


def test_plan_lists_cells_left_out_ones_and_cost(ablate, tmp_path):
    text = STUDY.replace("  dims.n_heads: 2\n", "")
    text = text.replace("axes:", "axes:\n  dims.n_heads: [2, 3, 4, '4']")
    (tmp_path / "tiny.yaml").write_text(text)
    code, out, _ = ablate("plan", "tiny.yaml", "--optim.lr", "1e-3")
    assert code == 0
    assert "tiny: 8 cells, one_factor_at_a_time" in out
    assert "dropped: dims.n_heads=3: dims.n_heads 3 must divide dims.d_model 16" in out
    assert "merged: dims.n_heads=4 seed=1: the same run as " in out
    assert "to run: 8 cells, 32 updates; time of one worker: unknown" in out


@pytest.mark.parametrize(
    ("levels", "seeds", "line"),
    [
        ("[pre, post]", "[1]", "1 seed: too few for a verdict; the first over 1 comparison takes"),
        ("[pre, post]", "[1, 2, 3, 4, 5, 6]", None),
        (
            "[pre, post, sandwich]",
            "[1, 2, 3, 4, 5, 6]",
            "6 seeds: too few for a verdict; the first over 2 comparisons takes at least 7 seeds\n",
        ),
        ("[pre, post, sandwich]", "[1, 2, 3, 4, 5, 6, 7]", None),
        ("[pre]", "[1]", None),
    ],
)
def test_too_few_seeds_for_a_verdict_are_told_before_the_sweep(
    ablate, tmp_path, levels, seeds, line
):
    text = f"base: {{task: sequences}}\naxes: {{design.norm_position: {levels}}}\nseeds: {seeds}\n"
    (tmp_path / "few.yaml").write_text(text)
    code, out, _ = ablate("plan", "few.yaml")
    assert code == 0
    assert ("too few" in out) == (line is not None)
    assert (line or "") in out


def test_a_flag_changes_the_ids_of_a_study(ablate):
    assert ablate("plan", "tiny.yaml")[1] == ablate("plan", "tiny.yaml")[1]
    assert ablate("plan", "tiny.yaml")[1] != ablate("plan", "tiny.yaml", "--optim.lr=0.1")[1]


def test_sweep_hands_the_missing_cells_to_the_workers(ablate, tmp_path, monkeypatch):
    cells = tiny_cells(tmp_path)
    finish(tmp_path, cells[:2])
    calls = []

    def launch(missing, **options):
        calls.append((missing, options))
        finish(tmp_path, missing, status="diverged")

    monkeypatch.setattr("ablations.launch.launch", launch)
    devices = ("--devices-per-cell", "2")
    code, out, _ = ablate("sweep", "tiny.yaml", "--workers", "2", "--no-wandb", *devices)
    assert code == 0
    ((missing, options),) = calls
    assert missing == cells[2:]
    assert {**options, "runs_dir": str(options["runs_dir"])} == {
        "name": "tiny",
        "runs_dir": "runs",
        "workers": 2,
        "wandb": False,
        "storage": None,
        "launcher": "local",
        "devices": 2,
    }
    assert "tiny: 6 cells: 4 diverged, 2 finished" in out


def test_sweep_reports_failed_cells_and_exits_with_1(ablate, tmp_path, monkeypatch):
    failed = tiny_cells(tmp_path)[1]

    def launch(missing, **_):
        finish(tmp_path, [cell for cell in missing if cell != failed])
        folder = tmp_path / "runs" / failed.id
        folder.mkdir()
        for number in range(1, 10):
            (folder / f"failure-{number}.txt").write_text("Traceback\nKeyError: 1\n")
        (folder / "failure-10.txt").write_text("Traceback\nMemoryError: too much\n")

    monkeypatch.setattr("ablations.launch.launch", launch)
    code, out, _ = ablate("sweep", "tiny.yaml")
    assert code == 1
    assert f"failed: {failed.id} design.norm_position=post seed=1: MemoryError: too much" in out


def test_a_finished_sweep_starts_nothing(ablate, no_launch, tmp_path):
    finish(tmp_path, tiny_cells(tmp_path))
    code, out, _ = ablate("sweep", "tiny.yaml")
    assert code == 0
    assert "tiny: 6 cells: 6 finished" in out
    assert "ablate table tiny.yaml" in out


def modules_after(tmp_path, *words):
    code = (
        "import sys\nfrom ablations.cli import main\n"
        f"try:\n    main({list(words)!r})\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    return answer.stdout, set(answer.stderr.split())


def test_help_imports_nothing_heavy(tmp_path):
    out, modules = modules_after(tmp_path, "--help")
    assert all(name in out for name in cli.COMMANDS)
    assert not modules & {"torch", "pytorch_lightning", "pandas", "yaml", "numpy"}


def test_a_finished_sweep_imports_torch_at_most(tmp_path):
    (tmp_path / "tiny.yaml").write_text(STUDY)
    finish(tmp_path, tiny_cells(tmp_path))
    out, modules = modules_after(tmp_path, "sweep", "tiny.yaml")
    assert "6 finished" in out
    assert not modules & {"pytorch_lightning", "pandas", "optuna", "wandb", "sentencepiece"}


def test_status_of_a_study_and_of_the_folder(ablate, tmp_path):
    cells = tiny_cells(tmp_path)
    finish(tmp_path, cells[:2])
    finish(tmp_path, cells[2:3], status="diverged")
    (tmp_path / "runs" / cells[3].id).mkdir()
    (tmp_path / "runs" / cells[3].id / "failure-1.txt").write_text("ValueError: x\n")
    (tmp_path / "runs" / cells[4].id).mkdir()
    (tmp_path / "runs" / cells[4].id / "result.json").write_text("{")
    _, out, _ = ablate("status", "tiny.yaml")
    assert "tiny: 6 cells: 1 diverged, 1 failed, 2 finished, 1 missing, 1 unreadable" in out
    assert f"failed: {cells[3].id}" in out
    queue = Queue(tmp_path / "runs" / "studies" / "tiny.sqlite", name="tiny")
    queue.fill([cells[0], cells[5]])
    assert "2 finished, 1 unreadable, 1 waiting" in ablate("status", "tiny.yaml")[1]
    assert ablate("status")[1] == "runs: 1 diverged, 1 failed, 2 finished, 1 unreadable\n"
    assert ablate("status", "--runs", "elsewhere")[1] == "elsewhere: no runs\n"


def test_run_merges_files_and_flags(ablate, tmp_path, monkeypatch):
    seen = {}

    def run_cell(config, **options):
        seen.update(options, config=config)
        metric = {
            "metric": "bleu",
            "split": "test",
            "length": None,
            "value": 12.5,
            "signature": "s",
        }
        return {"id": "abc", "status": "finished", "metrics": [metric]}

    monkeypatch.setattr("ablations.run.run_cell", run_cell)
    (tmp_path / "a.yaml").write_text("dims: {d_model: 32, n_heads: 2}\ndesign.mask: minus_1e9\n")
    (tmp_path / "b.json").write_text('{"dims.n_heads": 8, "seed": 4}')
    (tmp_path / "folder").mkdir()
    code, out, _ = ablate(
        "run", "--config", "a.yaml", "--config", "b.json", "--seed", "9", "--no-wandb"
    )
    assert code == 0
    config = seen["config"]
    assert (config.dims.d_model, config.dims.n_heads, config.seed) == (32, 8, 9)
    assert config.design.mask.name == "minus_1e9"
    assert "12.5" in out


def test_a_relative_data_folder_is_resolved(ablate, tmp_path, monkeypatch):
    corpus(tmp_path / "corpus")
    calls = []
    monkeypatch.setattr("ablations.launch.launch", lambda missing, **_: calls.extend(missing))
    flags = ["--data.source=files", "--data.path=corpus", "--data.n_train=0"]
    assert ablate("sweep", "tiny.yaml", *flags, "--data.vocabulary_size=9")[0] == 1
    assert {cell.config.data.path for cell in calls} == {str(tmp_path / "corpus")}


def test_from_a_study_to_its_table(ablate, tmp_path):
    """The whole path once, with real training in a worker process."""
    text = STUDY.replace("  design.position: [sinusoidal, rope]\n", "")
    (tmp_path / "tiny.yaml").write_text(text.replace("[1, 2]", "[1]"))
    code, out, _ = ablate("sweep", "tiny.yaml", "--no-wandb")
    assert code == 0
    assert "tiny: 2 cells: 2 finished" in out
    assert ablate("table", "tiny.yaml", "--format", "csv", "--output", "out/table.csv")[0] == 0
    assert "design.norm_position" in (tmp_path / "out/table.csv").read_text()
    out = ablate("table", "tiny.yaml", "--figures", "out")[1]
    for name in ("effects", "learning_curves"):
        assert f"figure: out/{name}.png" in out
        assert (tmp_path / f"out/{name}.png").stat().st_size > 0
    assert "unknown" not in ablate("plan", "tiny.yaml", "--design.mask=minus_1e9")[1]
