"""The benchmarks run: how fast anything is, is not asked here."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from ablations.run import run_cell
from ablations.task_runs.registry import make_task_run
from benchmarks import (
    _parts,
    _plain_decoding,
    _plain_loop,
    _to_bleu,
    decoding,
    forecasting,
    gpu_check,
    ledger,
    levels,
    memory,
    recurrence,
    startup,
    training,
)
from data.batches import PAD_ID
from lightning_modules.axes.positions import Position
from lightning_modules.decoding import greedy_search
from lightning_modules.design import AXES, Design, Dims
from lightning_modules.masks import real_positions
from lightning_modules.transformer import EncoderDecoder
from tests.ablations.tiny import TINY, tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs")
    config = tiny(budget__max_steps=2, budget__validate_every=2)
    return folder, run_cell(config, runs_dir=folder, cache_dir=folder / ".cache")["id"]


def test_decoding_is_timed_and_compared(
    run: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, identity = run
    found = decoding.main(["--run", identity, "--runs", str(folder), "--repetitions", "2"])
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[-1]) == found
    assert found["sentences"] == 8
    greedy = [decoding.CACHED, decoding.UNCACHED, decoding.PLAIN]
    assert found["differing"] == dict.fromkeys(greedy, 0)
    assert len({found["tokens"][name] for name in greedy}) == 1
    assert found["tokens"][decoding.PLAIN] > 0
    assert all(len(times) == 2 and min(times) > 0 for times in found["wall_seconds"].values())
    assert "greedy, with cache" in out.splitlines()[2]
    assert "1.00 [1.00, 1.00]" in out.splitlines()[2]
    assert "at least 7" in next(line for line in out.splitlines() if "nn.Transformer" in line)


def test_decoding_reads_as_many_sentences_as_asked(
    run: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, identity = run
    words = ["--run", identity, "--runs", str(folder), "--repetitions", "1", "--sentences", "3"]
    assert decoding.main(words)["sentences"] == 3


def test_outputs_that_differ_end_it(run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, identity = run
    searched = decoding.DECODERS["greedy, with cache"]
    monkeypatch.setitem(
        decoding.DECODERS,
        "greedy, without cache",
        lambda *words, **named: [[*row, 5] for row in searched(*words, **named)],
    )
    with pytest.raises(SystemExit, match="8 outputs differ with and without the cache"):
        decoding.main(["--run", identity, "--runs", str(folder), "--repetitions", "1"])


def test_a_design_without_a_plain_counterpart_is_timed_alone() -> None:
    dims = tiny().dims
    assert _plain_decoding.is_plain(Design(), dims)
    assert not _plain_decoding.is_plain(Design(position=Position.rope), dims)
    assert not _plain_decoding.is_plain(Design(), replace(dims, embedding_rank=8))
    assert not _plain_decoding.is_plain(Design(), replace(dims, d_head=8))


def test_the_plain_search_writes_what_ours_does() -> None:
    """Large weights, so that rows end at different times and limits differ."""
    torch.manual_seed(3)
    dims = replace(tiny().dims, dropout=0.0)
    ours = EncoderDecoder(37, design=Design(), dims=dims).eval()
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    lengths = torch.tensor([9, 7, 4, 2])
    source = torch.randint(4, 37, (4, 9)).where(real_positions(lengths, 9), PAD_ID)
    copy = _plain_decoding.plain_copy(ours, dims)
    sources = [ids[:length].tolist() for ids, length in zip(source, lengths, strict=True)]
    found = _plain_decoding.greedy(copy, sources)
    assert found == greedy_search(ours, source, lengths)
    assert len({len(row) for row in found}) > 1


def test_training_is_timed_beside_a_plain_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(budget__max_steps=60, optim__lr=0.02, optim__average_last=0.0)
    part = make_task_run(config, cache_dir=tmp_path)
    monkeypatch.setattr(training, "_part", lambda *words, **named: part)
    monkeypatch.setattr(training, "BATCH_SIZE", 8)
    found = training.main(["--repetitions", "2"])
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[-1]) == found
    assert "1.00 [1.00, 1.00]" in out.splitlines()[2]
    untrained = math.log(part.data.vocabulary_size)
    for losses in found["validation_loss"].values():
        assert len(losses) == 2
        assert max(losses) < untrained - 0.3


def test_the_plain_model_is_ours() -> None:
    dims, size = tiny().dims, 50
    ours = EncoderDecoder(size, design=Design(), dims=dims).eval()
    plain = _plain_loop.PlainTransformer(size, dims).eval()
    assert sum(p.numel() for p in plain.parameters()) == sum(p.numel() for p in ours.parameters())


def test_every_level_is_timed_against_what_differs_in_it_alone() -> None:
    found = {name: (base, design) for name, base, design in levels.designs()}
    assert len(found) == sum(len(axis) - 1 for axis in AXES.values())
    for name, (base, design) in found.items():
        axis, level = name.split()
        assert getattr(design, axis).name == level
        assert {n for n in AXES if getattr(base, n) is not getattr(design, n)} == {axis}


def test_a_level_costs_steps_of_the_baseline(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = list(levels.designs())[:2]
    monkeypatch.setattr(levels, "designs", lambda: few)
    found = levels.main(["--repetitions", "1"])
    assert list(found) == [name for name, *_ in few]
    assert all(len(ratios) == 1 and ratios[0] > 0 for ratios in found.values())
    assert few[0][0] in capsys.readouterr().out


def test_kinds_of_tokens_are_timed_beside_points(capsys: pytest.CaptureFixture[str]) -> None:
    found = forecasting.main(["--repetitions", "1"])
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[-1]) == found
    assert list(found) == list(forecasting.KINDS)
    assert found["patches of 16, by 16"][0] > found[forecasting.SLOWEST][0]  # by 35 times
    assert "1.0 [1.0, 1.0]" in next(
        line for line in out.splitlines() if forecasting.SLOWEST in line
    )


def test_memory_is_measured_over_lengths(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LENGTHS", (128, 256, 512))
    found = memory.main([])
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == found
    short, middle, long = found["fused"]
    assert middle - short == pytest.approx((long - middle) / 2)  # grows with the length
    short, middle, long = found["explicit"]
    assert (long - middle) / (middle - short) > 3  # nearly with its square


def test_layers_are_timed_over_lengths(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"WIDTH": 8, "TOKENS": 32, "LENGTHS": (4, 16)}.items():
        monkeypatch.setattr(recurrence, name, value)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    found = recurrence.main(["--repetitions", "2"])
    lengths = [f"{n} tokens" for n in (4, 16)]
    assert list(found) == [f"{m}, 1 threads, {n}" for m in ("LSTM", "Transformer") for n in lengths]
    assert all(len(rates) == 2 and min(rates) > 0 for rates in found.values())
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rates"] == found


def test_waiting_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    found = startup.main(["--repetitions", "1"])
    assert list(found) == [*startup.COMMANDS, startup.COLD, startup.WARM]
    assert found[startup.WARM][0] < found[startup.COLD][0]


CPU = torch.device("cpu")


def made_here(measurements: gpu_check.Measurements) -> dict[str, dict[str, float]]:
    """What measurements find, without processes of their own."""

    class Here:
        until = math.inf

        def run(self, measurement: Callable[[], Any], *, count: int = 1) -> list[Any]:
            return [measurement() for _ in range(count)]

    return {name: measurement(Here()) for name, measurement in measurements.items()}


def test_shipped_attention_agrees_with_the_explicit_one_at_every_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_check, "PRECISIONS", {"fp32": None})
    found = made_here(gpu_check.agreement(CPU))
    assert len(found) == 1 + sum(len(axis) - 1 for axis in AXES.values())
    for name, differences in found.items():
        assert list(differences) == ["fp32 states", "fp32 gradients"]
        assert max(differences.values()) < 1e-5, name


def test_half_precision_is_compared_with_single(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "designs", lambda: [])
    [found] = made_here(gpu_check.agreement(CPU)).values()
    assert found["fp32 states"] < 1e-5 < found["bf16 states"] < 0.05
    assert 1e-5 < found["bf16 explicit gradients"] < 0.1


def test_a_card_is_timed_on_any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Dims(d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1)
    sizes = {"SECONDS": 0.01, "VOCABULARY": 50, "ROWS": 4, "LENGTH": 6, "AT_ONCE": (1, 2)}
    for name, value in sizes.items():
        monkeypatch.setattr(gpu_check, name, value)
    speeds = made_here(gpu_check.speed(CPU, {"Tiny": small}, compiled=False))
    assert list(speeds) == ["Tiny bf16", "Tiny fp32"]
    assert all(min(values.values()) > 0 for values in speeds.values())
    dear = {f"{axis} {level}" for axis, levels in gpu_check.DEAR.items() for level in levels}
    assert set(made_here(gpu_check.levels(CPU, small))) == dear
    assert list(made_here(gpu_check.packed(CPU, small))) == ["1 at once", "2 at once"]


FAILS = partial(int, "x\ny")


def test_what_fails_loses_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parts, "IMPORTED", [])
    told = []
    part = _parts.measure(
        {
            "process": _parts.alone(os.getpid),
            "again": _parts.alone(os.getpid),
            "raises": _parts.alone(FAILS),
            "dies": _parts.alone(partial(os._exit, 3)),
            "after": _parts.alone(os.getpid),
        },
        until=time.perf_counter() + 60,
        say=lambda name, values: told.append(name),
    )
    assert told == list(part.found) == ["process", "again", "after"]
    assert part.left_out == []
    assert part.found["process"] == part.found["again"] != part.found["after"]
    assert part.failed == {
        "raises": "ValueError: invalid literal for int() with base 10: 'x\\ny'",
        "dies": "its process ended with exit code 3",
    }


def test_a_check_says_what_failed_and_keeps_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {
        "first": {"bad": _parts.alone(FAILS)},
        "second": {"good": _parts.alone(partial(dict, speed=2.0))},
        "third": {"slow": _parts.alone(partial(time.sleep, 60))},
    }
    monkeypatch.setattr(gpu_check, "_parts", lambda device, path: parts)
    monkeypatch.setattr(gpu_check, "SHARES", {"third": 0.5})
    monkeypatch.setattr(_parts, "IMPORTED", [])
    with pytest.raises(SystemExit, match="failed: first"):
        gpu_check.main([])
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[-1])
    assert found["second"] == {"good": {"speed": 2.0}}
    assert found["failed"] == {
        "first": {"bad": "ValueError: invalid literal for int() with base 10: 'x\\ny'"}
    }
    assert found["left_out"] == {"third": ["slow"]}
    assert "no time for: slow" in out


def test_training_stops_at_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {name: value for name, value in TINY.items() if not name.startswith("budget")}
    monkeypatch.setattr(_to_bleu, "RECIPE", small)
    monkeypatch.setattr(_to_bleu, "GOAL", 0.0)
    found = _to_bleu.train("", seconds=60, max_steps=6, every=2)
    assert list(found) == ["after 2 updates"]
    assert 0 <= found["after 2 updates"]["bleu"] < 50
    monkeypatch.setattr(_to_bleu, "GOAL", 101.0)
    assert list(_to_bleu.train("", seconds=0, max_steps=6, every=2)) == ["after 1 updates"]


def test_a_gpu_is_checked_without_what_its_machine_lacks() -> None:
    code = """
import builtins
from pathlib import Path
lacking = {"wandb", "optuna", "datasets", "jsonargparse", "rich", "orjson"}
imports = builtins.__import__
def import_ours(name, globals=None, *others, **named):
    file = Path((globals or {}).get("__file__", "/"))
    if name.split(".")[0] in lacking and file.is_relative_to(Path.cwd()):
        raise ModuleNotFoundError(name)
    return imports(name, globals, *others, **named)
builtins.__import__ = import_ours
import benchmarks.gpu_check
"""
    root = Path(__file__).parents[1]
    answer = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_reading_runs_is_timed_and_damaged_ones_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ledger.main(["--records", "27", "--levels", "4"])
    out = capsys.readouterr().out
    assert "20 records read, 7 damaged ones left out: " in out
    assert "table of 4 rows, 0 runs missing: " in out
