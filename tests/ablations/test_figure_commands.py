"""`ablate attention` and `ablate positions` on runs of every task, and what they refuse."""

import json
import shutil

import pandas as pd
import pytest
import torch

from ablations import cli
from ablations.attention import attend
from ablations.attention_examples import Choice
from ablations.config import config_from_flat
from ablations.finished import open_run
from ablations.position_tables import design_tables, run_tables
from ablations.run import run_cell
from data.text import load_text
from lightning_modules.axes.positions import Rotary
from tests.ablations.tiny import TINY, tiny

SHORT = {"budget.max_steps": 2, "budget.validate_every": 2, "dims.dropout": 0.0}
SIZES = {name: value for name, value in TINY.items() if name.startswith("dims.")}
FORECASTING = {
    **SIZES,
    **SHORT,
    "task": "forecasting",
    "data.lookback": 40,
    "data.horizon": 3,
    "data.n_hours": 1000,
}
CONFIGS = {
    "translation": tiny(budget__max_steps=2, budget__validate_every=2),
    "decoder": config_from_flat(
        {
            **SIZES,
            **SHORT,
            "task": "sequences",
            "variant.form": "decoder_only",
            "design.position": "rope",
            "data.eval_lengths": "3,7",
            "dims.max_length": 40,
            "data.train_max": 4,
            "data.n_train": 100,
            "data.n_eval": 5,
        }
    ),
    "text": config_from_flat(
        {
            **SIZES,
            **SHORT,
            "task": "language_modeling",
            "data.context_length": 8,
            "data.eval_lengths": "8,12",
            "data.n_prompts": 0,
        }
    ),
    "steps": config_from_flat(
        {**FORECASTING, "variant.readout": "autoregressive", "data.eval_lookbacks": "40,56"}
    ),
    "ridge": config_from_flat({**FORECASTING, "variant.model": "ridge"}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a finished run of each config, and their ids."""
    folder = tmp_path_factory.mktemp("runs")
    ids = {
        name: run_cell(config, runs_dir=folder, cache_dir=folder / ".cache")["id"]
        for name, config in CONFIGS.items()
    }
    return folder, ids


@pytest.fixture
def ablate(runs, tmp_path, monkeypatch, capsys):
    """Run a command on one of the runs, with its output in an empty folder."""
    monkeypatch.chdir(tmp_path)
    folder, ids = runs

    def call(command, name, *words, runs_dir=folder):
        run = [ids.get(name, name)] if name else []
        place = ["--runs", str(runs_dir), "--output", "out"]
        code = cli.main([command, *run, *place, *words])
        return code, *capsys.readouterr()

    return call


def refused(answer):
    code, out, err = answer
    assert (code, out) == (2, "")
    assert err.startswith("ablate: ")
    assert err.count("\n") == 1
    return err


def weights(file):
    text = {"query_label": str, "key_label": str}
    return pd.read_csv(file, keep_default_na=False, dtype=text)


def labels(frame, side):
    return list(frame.drop_duplicates(side).sort_values(side)[f"{side}_label"])


def test_a_pair_of_sentences(ablate, runs, tmp_path):
    code, out, _ = ablate("attention", "translation", "--example", "3")
    assert code == 0
    assert "test, example 3, reading the reference" in out
    cross = weights(tmp_path / "out/decoder-cross.csv")
    assert labels(cross, "query")[0] == "<s>"
    assert labels(cross, "key")[-1] == "</s>"
    source = "".join(labels(cross, "key")[:-1]).replace("▁", " ").strip()
    encoder = weights(tmp_path / "out/encoder.csv")
    assert labels(encoder, "query") == labels(encoder, "key") == labels(cross, "key")
    from data.translation import TranslationDataModule

    data = TranslationDataModule(tiny().data, seed=1, cache_dir=runs[0] / ".cache")
    assert source == data.sources("test")[3]
    sums = cross.groupby(["layer", "head", "query"])["weight"].sum()
    assert sums.to_numpy() == pytest.approx(1, abs=1e-5)
    heads = pd.read_csv(tmp_path / "out/heads.csv")
    assert len(heads) == 3 * 2
    assert heads.loc[heads["stack"] == "decoder-cross", "self"].isna().all()
    own = pd.read_csv(tmp_path / "out/decoder-self.csv")
    diagonal = own[own["query"] == own["key"]].groupby("head")["weight"].mean()
    shown = heads[heads["stack"] == "decoder-self"].set_index("head")["self"]
    assert shown.to_numpy() == pytest.approx(diagonal.to_numpy(), abs=1e-6)
    pictures = [line.split()[1] for line in out.splitlines() if line.startswith("figure: ")]
    assert len(pictures) == 3
    assert all((tmp_path / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)


def opened(runs, name):
    """One of the runs."""
    folder, ids = runs
    return open_run(ids[name], runs_dir=folder)


def read(runs, run, **choice):
    """What the heads of a run attend to, undrawn; and the weights of each stack."""
    found = attend(run, Choice(**choice), cache_dir=runs[0] / ".cache")
    return found, dict(list(found.weights.groupby("stack")))


def test_a_text_is_read_with_its_own_translation(runs):
    found, stacks = read(runs, opened(runs, "translation"), text="the $dog$ 日本")
    assert "reading the model's own translation" in found.title
    text = "".join(labels(stacks["encoder"], "key")[:-1]).replace("▁", " ").strip()
    assert text == "the $dog$ 日本"
    assert labels(stacks["decoder-self"], "query")[0] == "<s>"


def test_a_sequence_at_a_length_beyond_training(runs):
    run = opened(runs, "decoder")
    found, stacks = read(runs, run, split="test@7", index=4)
    factors = [part.factor for part in run.module.modules() if isinstance(part, Rotary)]
    assert factors == [7 / 4]
    assert "copy, 7 items, example 4" in found.title
    assert stacks.keys() == {"decoder-self"}
    frame = stacks["decoder-self"]
    tokens = labels(frame, "query")
    assert (tokens[0], tokens[8]) == ("<s>", "<sep>")
    assert tokens[1:8] == tokens[9:]
    assert not frame.loc[frame["key"] > frame["query"], "weight"].any()


def test_a_window_of_text(runs):
    found, stacks = read(runs, opened(runs, "text"), split="test@12", index=1)
    assert "test, 12 tokens, window 1" in found.title
    assert stacks.keys() == {"decoder-self"}
    written = load_text(CONFIGS["text"].data)["test"]
    assert "".join(labels(stacks["decoder-self"], "query")) == written[11:23]


def test_a_window_of_hours(runs):
    found, stacks = read(runs, opened(runs, "steps"), split="test@56", index=2)
    assert "test@56, window 2" in found.title
    assert "hours" in found.unit
    starts = ["-56..-41", "-48..-33", "-40..-25", "-32..-17", "-24..-9", "-16..-1"]
    assert labels(stacks["encoder"], "key") == [*starts, "-8..-1 (+8)"]
    decoder = stacks["decoder-self"]
    assert labels(decoder, "query") == ["+1", "+2", "+3"]
    assert not decoder.loc[decoder["key"] > decoder["query"], "weight"].any()


REFUSED = [
    ("ridge", [], "has no attention to draw: variant.model ridge"),
    ("nothing", [], "no finished run 'nothing' in "),
    ("translation", ["--example", "8"], "--example 8: the split has 8 examples, 0 to 7"),
    ("translation", ["--example", "-1"], "'-1' is not a whole number of 0 or more"),
    ("translation", ["--split", "train"], "--split train: no test split; there are test"),
    ("translation", ["--text", " "], "--text is empty"),
    ("translation", ["--channel", "OT"], "--channel: task translation has no channels"),
    ("decoder", ["--text", "1 2 3"], "--text: task sequences reads no sentence"),
    ("steps", ["--channel", "OT"], "--channel OT: no channel; there are "),
    ("translation", ["--text", "a", "--example", "1"], "not allowed with argument"),
]


@pytest.mark.parametrize(("name", "words", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_cannot_be_drawn_is_refused_in_one_line(ablate, tmp_path, name, words, message):
    assert message in refused(ablate("attention", name, *words))
    assert not (tmp_path / "out").exists()


def edited(runs, name, folder, **changes):
    """A copy of a run whose result says something else."""
    source, ids = runs
    shutil.copytree(source, folder)
    file = folder / ids[name] / "result.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return folder


def test_runs_without_usable_weights_are_refused(ablate, runs, tmp_path):
    folder = edited(runs, "translation", tmp_path / "a", status="diverged", diverged_at_step=7)
    for command in ("attention", "positions"):
        message = refused(ablate(command, "translation", runs_dir=folder))
        assert "diverged at update 7" in message
    file = folder / runs[1]["decoder"] / "weights.pt"
    content = torch.load(file, weights_only=True)
    del content["state_dict"]["model.output_table.rows.weight"]
    torch.save(content, file)
    message = refused(ablate("attention", "decoder", runs_dir=folder))
    assert "weights of another version" in message
    file.unlink()
    message = refused(ablate("attention", "decoder", runs_dir=folder))
    assert "has no weights" in message
    assert "ablate run" in message
    near = runs[1]["decoder"][:-1]
    assert f"did you mean {runs[1]['decoder']}?" in refused(ablate("attention", near))


def test_another_vocabulary_or_other_data_are_refused(ablate, runs, tmp_path, monkeypatch):
    folder = edited(runs, "translation", tmp_path / "b", tokenizer_hash="0" * 16)
    message = refused(ablate("attention", "translation", runs_dir=folder))
    assert "token ids would mean other words" in message
    kind = CONFIGS["decoder"].task.value
    monkeypatch.setitem(vars(kind), "fingerprint", lambda data: "0" * 16)
    message = refused(ablate("attention", "decoder"))
    assert "was trained on other data than these (generated)" in message
    message = refused(ablate("attention", "decoder", "--data.path", "data"))
    assert "--data.path: task sequences reads no files" in message


def test_the_tables_of_a_design(ablate, tmp_path):
    code, out, _ = ablate("positions", "", "--dims.max_length", "40", "--dims.d_model", "8")
    assert code == 0
    assert "encoder: waves of 6.3 tokens (dimension 0) to 6,283 tokens" in out
    assert "+0.99: low dimensions oscillate fast, high ones slow" in out
    frame = pd.read_csv(tmp_path / "out/positions.csv")
    assert len(frame) == 2 * 40 * 8
    assert (tmp_path / "out/positions.png").read_bytes().startswith(b"\x89PNG")
    waves = pd.read_csv(tmp_path / "out/wavelengths.csv")
    assert list(waves.columns) == ["stack", "dimension", "wavelength"]
    config = config_from_flat({"design.position": "alibi", "dims.max_length": 40})
    found = design_tables(config)
    assert found.waves.empty
    last = found.table.groupby("stack")["offset"].max()
    assert last.to_dict() == {"decoder": 0, "encoder": 39}


def test_the_tables_of_a_run(ablate, runs):
    found = run_tables(opened(runs, "decoder"))
    assert found.title == f"{runs[1]['decoder']}: design.position rope"
    assert set(found.table["stack"]) == {"decoder"}
    assert set(found.table["kind"]) == {"rotation"}
    assert found.table["position"].max() == 39
    assert "ridge" in refused(ablate("positions", "ridge"))
    message = refused(ablate("positions", "decoder", "--dims.d_model=8"))
    assert "has a config already" in message
    assert "has no table" in refused(ablate("positions", "", "--design.position=none"))
