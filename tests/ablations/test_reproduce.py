"""What stands behind a run or a row, and whether running it again gives the same."""

import json
import shutil

import pytest
import torch

from ablations.reproduction import compare, known_records, provenance
from ablations.run import run_cell
from tests.ablations.tiny import tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with two runs of one design, and their ids."""
    folder = tmp_path_factory.mktemp("runs")
    ids = [
        run_cell(
            tiny(budget__max_steps=2, budget__validate_every=2, seed=seed),
            runs_dir=folder,
            cache_dir=folder / ".cache",
        )["id"]
        for seed in (1, 2)
    ]
    return folder, ids


@pytest.fixture
def copied(finished, tmp_path):
    """Two folders with the same result, to be changed."""
    folder, (identity, _) = finished
    places = tmp_path / "first" / identity, tmp_path / "second" / identity
    for place in places:
        shutil.copytree(folder / identity, place)
    return places


def change(place, edit):
    file = place / "result.json"
    record = json.loads(file.read_text())
    edit(record)
    file.write_text(json.dumps(record))


def test_the_same_run_again_is_bit_identical(ablate, finished, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)  # the tests' own stay
    folder, (identity, _) = finished
    code, out, err = ablate("reproduce", identity, f"--runs={folder}", "--run=again")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "the same in 1 run:"
    record = json.loads((folder / identity / "result.json").read_text())
    assert f"  again: {record['command']}" in lines
    for name in ("data_fingerprint", "tokenizer_hash", "hardware", "git_commit"):
        assert f"  {name}: {record[name]}" in lines
    assert f"  version of torch: {torch.__version__}" in lines
    assert "  dims.d_model: 8" in lines
    assert f"{identity} bit-identical: {len(record['metrics']) + 1} numbers, weights" in out
    assert (tmp_path / "again" / identity / "result.json").is_file()


def test_shared_facts_stand_once_and_the_others_with_their_run(finished):
    folder, ids = finished
    lines = list(provenance(known_records([*ids, "0" * 12], runs_dir=folder)))
    assert lines[0] == "the same in all 2 runs:"
    assert lines.count("  dims.d_model: 8") == 1
    first, second = (next(i for i, x in enumerate(lines) if x.startswith(f"run {n}")) for n in ids)
    assert "  seed: 1" in lines[first:second]
    assert "  seed: 2" in lines[second:]


def test_what_differs_is_named_with_both_numbers(copied):
    def edit(record):
        record["metrics"][0]["value"] += 0.25
        record["versions"]["torch"] = "1.0"
        record["metrics"].pop()

    change(copied[1], edit)
    found = compare(*copied)
    assert not found.identical
    (name,) = found.differing
    assert found.differing[name][1] - found.differing[name][0] == 0.25
    lines = list(found.lines())
    assert lines[0].startswith("not identical: 1 of ")
    assert f"{name}: " in lines[1]
    assert "(+0.25)" in lines[1]
    assert any("in one of them only" in line for line in lines)
    assert f"  made with version of torch {torch.__version__}, now 1.0" in lines


def test_a_weight_that_differs_is_no_reproduction(copied):
    file = copied[1] / "weights.pt"
    content = torch.load(file, weights_only=True)
    next(iter(content["state_dict"].values())).view(-1)[0] += 0.5
    torch.save(content, file)
    found = compare(*copied)
    assert not found.identical
    assert found.weights == pytest.approx(0.5)
    file.unlink()
    assert compare(*copied).weights is None
    assert "no weights" in next(compare(*copied).lines())


def test_a_row_of_a_study_is_that_of_its_table(ablate, tmp_path):
    study = (tmp_path / "tiny.yaml").read_text().replace("[1, 2]", "[1]")
    (tmp_path / "one.yaml").write_text(study)
    assert ablate("sweep", "one.yaml", "--no-wandb")[0] == 0
    _, shown, _ = ablate("table", "one.yaml")
    assert "ablate reproduce one.yaml --row N" in shown
    runs = next(line for line in shown.splitlines() if line.startswith("row 3: "))
    code, out, _ = ablate("reproduce", "one.yaml", "--row=3")
    assert code == 0
    assert out.startswith("row 3 of one: design.position rope\ncompared with ")
    assert f"run {runs.removeprefix('row 3: ')}: finished" in out
    shutil.rmtree(tmp_path / "runs" / runs.removeprefix("row 3: "))
    code, _, err = ablate("reproduce", "one.yaml", "--row=3")
    assert code == 2
    assert "run it first" in err
    code, _, err = ablate("reproduce", "one.yaml", "--row=9")
    assert (code, err) == (2, "ablate: --row 9: the table has rows 1 to 3\n")


def test_wrong_requests_are_one_line(ablate, finished):
    folder, (identity, _) = finished
    runs = f"--runs={folder}"
    assert "of a study, name a row" in ablate("reproduce", "nowhere", runs)[2]
    assert "whose config is known" in ablate("reproduce", identity, runs, "--seed=3")[2]
    assert "whose config is known" in ablate("reproduce", identity, runs, "--row=3")[2]
    assert "name another folder" in ablate("reproduce", identity, runs, f"--run={folder}")[2]
