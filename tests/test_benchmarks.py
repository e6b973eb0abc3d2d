"""The benchmarks run: how fast anything is, is not asked here."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ablations.run import run_cell
from ablations.task_runs.registry import make_task_run
from benchmarks import (
    _plain_decoding,
    _plain_loop,
    decoding,
    forecasting,
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
from lightning_modules.design import AXES, Design
from lightning_modules.masks import real_positions
from lightning_modules.transformer import EncoderDecoder
from tests.ablations.tiny import tiny


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


def test_reading_runs_is_timed_and_damaged_ones_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ledger.main(["--records", "27", "--levels", "4"])
    out = capsys.readouterr().out
    assert "20 records read, 7 damaged ones left out: " in out
    assert "table of 4 rows, 0 runs missing: " in out
