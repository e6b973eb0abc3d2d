"""The command that compares translations sentence by sentence."""

import io
import json

import pandas as pd
import pytest

from data.paired_bootstrap import paired_bootstrap
from data.translation import TranslationDataModule
from tests.ablations.tiny import tiny


@pytest.fixture
def swept(ablate, tmp_path):
    study = (tmp_path / "tiny.yaml").read_text()
    one = study.replace("seeds: [1, 2]", "seeds: [1]").replace(
        "  design.position: [sinusoidal, rope]\n", ""
    )
    (tmp_path / "tiny.yaml").write_text(one)
    assert ablate("sweep", "tiny.yaml", "--no-wandb")[0] == 0
    return tmp_path / "runs"


def test_pairs_are_compared_and_files_that_do_not_fit_are_named(ablate, swept, tmp_path):
    code, out, err = ablate("bootstrap", "tiny.yaml", "--metric=chrf", "--format=csv")
    assert (code, err) == (0, "")
    (line,) = pd.read_csv(io.StringIO(out)).to_dict("records")
    assert (line["axis"], line["level"], line["seed"]) == ("design.norm_position", "post", 1)
    outputs = {
        name: (swept / line[name] / "hypotheses" / "test.txt").read_text().split("\n")[:-1]
        for name in ("run", "baseline_run")
    }
    data = tiny(data__vocabulary_size=200, data__n_train=300, data__tokens_per_batch=512).data
    references = TranslationDataModule(data, seed=1, cache_dir=swept / ".cache").references("test")
    first, found = paired_bootstrap(
        outputs["baseline_run"],
        {"run": outputs["run"]},
        references,
        metric="chrf",
        language="de",
    )
    assert line["difference"] == pytest.approx(found["run"].score - first.score)
    assert (line["p"], line["half_width"]) == (found["run"].p, found["run"].half_width)

    shown = ablate("bootstrap", "tiny.yaml", "--metric=chrf")[1]
    assert "bs:1000|seed:12345" in shown
    assert "intervals over seeds: ablate table tiny.yaml" in " ".join(shown.split())

    record = swept / line["run"] / "result.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "code_version": "another"}))
    assert "with --mixed-code" in ablate("bootstrap", "tiny.yaml")[2]
    assert ablate("bootstrap", "tiny.yaml", "--mixed-code")[0] == 0

    file = swept / line["run"] / "hypotheses" / "test.txt"
    file.write_text("one\n")
    assert (
        "holds 1 sentences, and the test set 8"
        in ablate("bootstrap", "tiny.yaml", "--mixed-code")[2]
    )
    file.unlink()
    assert "kept no translations" in ablate("bootstrap", "tiny.yaml", "--mixed-code")[2]


def test_what_has_no_sentences_is_refused(ablate):
    code, _, err = ablate("bootstrap", "copy_sizes")
    assert (code, err) == (
        2,
        "ablate: copy_sizes is a study of sequences: it has no translations\n",
    )
    assert "no bootstrap over it" in ablate("bootstrap", "tiny.yaml", "--metric=loss")[2]
    assert "name one whole test split" in ablate("bootstrap", "tiny.yaml", "--split=test@8")[2]
    assert "no results of tiny" in ablate("bootstrap", "tiny.yaml")[2]
