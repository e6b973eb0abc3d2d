"""What a user gets wrong is one line, with exit code 2, before anything is started."""

import pytest

from tests.ablations.tiny import STUDY, corpus

REFUSED = [
    (["run", "--dims.n_heads", "3"], "dims.n_heads 3 must divide dims.d_model 128"),
    (["sweep", "demo", "--dims.d_model=65"], "must divide dims.d_model 65"),
    (
        ["run", "--design.position=rope", "--dims.d_model=12"],
        "the width of a query must be even, not",
    ),
    (
        ["run", "--design.positions", "rope"],
        "'design.positions' is no config path; did you mean",
    ),
    (["run", "--design.position", "ropy"], "legal: sinusoidal, none, learned, rope, alibi"),
    (["plan", "nope"], "'nope' is neither a file nor a shipped study; shipped: copy_choices"),
    (["plan", "demo", "--design.mask", "minus_inf"], "design.mask is an axis of this study"),
    (["sweep", "demo", "--workers", "0"], "'0' is not a whole number of 1 or more"),
    (["run", "--config", "nowhere.yaml"], "--config nowhere.yaml: "),
    (["table", "tiny.yaml"], "no results of tiny in runs; run 'ablate sweep tiny.yaml'"),
    (["table", "demo", "--format", "pdf"], "invalid choice: 'pdf'"),
    (["run", "tiny"], "unrecognised argument 'tiny'"),
    (["sweep", "tiny.yaml", "--worker", "2"], "did you mean --workers?; see 'ablate sweep --help'"),
    (["fly"], "invalid choice: 'fly'"),
    ([], "required: COMMAND"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_wrong_input_is_one_line_and_exit_code_2(ablate, no_launch, words, message):
    code, out, err = ablate(*words)
    assert (code, out) == (2, "")
    assert err.startswith("ablate: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("words", [["sweep", "tiny.yaml", "--runs"], ["positions", "--output"]])
def test_a_folder_that_is_a_file_is_one_line_and_exit_code_2(ablate, no_launch, words):
    code, _, err = ablate(*words, "tiny.yaml")
    assert code == 2
    assert err.startswith("ablate: ")
    assert err.count("\n") == 1
    assert "tiny.yaml" in err
    assert err.endswith((": Not a directory\n", ": File exists\n"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("  design.norm: [pre, post]", "tiny.yaml: 'design.norm' is no config path"),
        (
            "  design.mask: [minus_inf, zero]",
            "'zero' is no level; legal: minus_inf, minus_1e9",
        ),
        ("  design.mask: [", "tiny.yaml: no valid YAML"),
    ],
)
def test_a_wrong_study_is_refused(ablate, no_launch, tmp_path, line, message):
    (tmp_path / "tiny.yaml").write_text(STUDY.replace("axes:", f"axes:\n{line}"))
    code, _, err = ablate("sweep", "tiny.yaml")
    assert code == 2
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ({"train_de": b"a\nb\nc\n"}, ["2", "3"]),
        ({"val_en": b"", "val_de": b""}, ["val", "empty"]),
        ({"test_en": b"a\n\xff\xfe\n"}, ["test.en", "2"]),
    ],
    ids=["line counts", "empty", "encoding"],
)
@pytest.mark.parametrize("command", [["run"], ["sweep", "tiny.yaml"]], ids=["run", "sweep"])
def test_wrong_data_is_refused_before_training(
    ablate, no_launch, tmp_path, command, content, messages
):
    corpus(tmp_path / "corpus", **content)
    code, _, err = ablate(*command, "--data.source=files", "--data.path=corpus", "--data.n_train=0")
    assert code == 2
    assert err.startswith("ablate: ")
    assert err.count("\n") == 1
    assert all(message in err for message in messages)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "command", [["run", "--no-wandb"], ["sweep", "tiny.yaml"]], ids=["run", "sweep"]
)
def test_a_vocabulary_too_large_is_refused_before_training(ablate, no_launch, tmp_path, command):
    code, _, err = ablate(*command, "--data.vocabulary_size=9000", "--data.n_train=200")
    assert code == 2
    assert err.count("\n") == 1
    assert "9000" in err
    assert "at most" in err
    assert not list(tmp_path.glob("runs/*/result.json"))
