"""`ablate claims`: verdicts on planted effects, and the cells that a claim still needs."""

import csv
import io
import json

import pytest

from ablations import claim_commands
from ablations.config import nested
from ablations.identity import identity
from ablations.ledger import flat
from ablations.plan import make_plan
from ablations.study import load_study
from analysis.claim_tables import ClaimRow
from tests.ablations.test_claims import DISPUTED, IDS

RECORD = {
    "tokenizer_hash": "",
    "parameters": 1000,
    "steps": 150,
    "target_tokens": 1000,
    "tokens_per_second": 100.0,
    "hardware": "none",
    "threads": 1,
    "command": "made up",
    "started": "2026-01-01T00:00:00",
    "ended": "2026-01-01T00:00:01",
}


def write_runs(folder, name, score, *, leave_out=()):
    """Records of every cell of a study, with made-up scores on its metric and split."""
    study = load_study(name)
    plan = make_plan(study, data_fingerprint=lambda data: "f" * 16)
    for cell in plan.cells:
        if cell.config.seed in leave_out:
            continue
        config = nested(cell.config)
        assert identity(flat(config), "f" * 16) == cell.id
        split, _, length = study.split.partition("@")
        measured = {
            "metric": study.metric,
            "split": split,
            "length": int(length) if length else None,
            "value": score(cell),
            "signature": "made up",
        }
        record = {
            "schema": 1,
            "id": cell.id,
            "status": "finished",
            "config": config,
            "data_fingerprint": "f" * 16,
            "metrics": [measured],
            "seconds": {"train": 1.0, "evaluate": 1.0, "total": 2.0},
        }
        path = folder / cell.id
        path.mkdir(parents=True)
        (path / "result.json").write_text(json.dumps({**RECORD, **record}))


def verdict_of(ablate, name, *words):
    code, out, err = ablate("claims", "show", name, "--format=csv", *words)
    assert (code, err) == (0, "")
    return list(csv.DictReader(io.StringIO(out)))


def test_planted_effects_settle_claims(ablate, tmp_path):
    """Positions on values only cost .3, concatenation nothing: P9 and P8 are confirmed."""
    scores = {"values_only": -0.3, "concat": 0.0, "wrong_branch": 0.2}

    def score(cell):
        effect = sum(scores.get(str(level), 0.0) for level in cell.changes.values())
        return 0.6 + effect + 0.002 * (cell.config.seed % 3) * (1 if cell.changes else 2)

    write_runs(tmp_path / "runs", "copy_choices", score)
    (row,) = verdict_of(ablate, "P9")
    assert row["claim_verdict"] == "confirmed"
    assert float(row["difference"]) == pytest.approx(-0.3, abs=0.01)
    assert (row["seeds_compared"], row["command"]) == ("8", "ablate claims run P9")
    assert verdict_of(ablate, "P8")[0]["claim_verdict"] == "confirmed"
    assert verdict_of(ablate, "N6")[0]["claim_verdict"] == "refuted"  # planted better, not worse


def test_few_seeds_are_said_to_be_too_few(ablate, tmp_path):
    write_runs(
        tmp_path / "runs",
        "copy_choices",
        lambda cell: 0.5 + 0.001 * cell.config.seed**2 - 0.3 * bool(cell.changes),
        leave_out=(6, 7, 8),
    )
    (row,) = verdict_of(ablate, "P9")
    assert row["claim_verdict"] == "not distinguishable at this n"
    assert "too few seeds for any verdict, which takes 6" in row["found"]
    assert "6 runs missing" in row["found"]


@pytest.mark.parametrize(
    ("leave_out", "verdict"), [((7, 8), "not distinguishable at this n"), ((8,), "confirmed")]
)
def test_a_claim_of_two_comparisons_tests_each_at_half_the_level(
    ablate, tmp_path, leave_out, verdict
):
    """A8: six seeds can reach 5%, but it takes seven to reach 2.5%."""
    effects = {1: 0.3, 16: -0.3}
    write_runs(
        tmp_path / "runs",
        "copy_sizes",
        lambda cell: 0.5 + 0.001 * cell.seed**2 + effects.get(cell.changes.get("dims.n_heads"), 0),
        leave_out=leave_out,
    )
    rows = verdict_of(ablate, "A8")
    assert [row["verdict"] for row in rows] == [verdict] * 2


def test_what_was_never_run_is_said_with_what_it_needs(ablate):
    (row,) = verdict_of(ablate, "T4")
    assert row["claim_verdict"] == "not run"
    assert row["needs"].startswith("the study multi30k")
    code, out, _ = ablate("claims", "show", "T4")
    assert code == 0
    assert "Still needs: the study multi30k" in " ".join(out.split())


def test_the_list_leads_with_the_contradictions_and_counts(ablate, monkeypatch):
    monkeypatch.setattr(
        claim_commands,
        "claim_rows",
        lambda chosen, **_: [
            ClaimRow(
                id=claim.id,
                statement=claim.statement,
                source=claim.source,
                kind="identity",
                contradiction=claim.contradiction,
                prediction=claim.prediction,
                expects=claim.expects,
                needs=claim.needs,
                parts=(),
            )
            for claim in chosen
        ],
    )
    code, out, _ = ablate("claims", "--format=markdown")
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("| ") and "| id" not in line]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines][:6] == DISPUTED
    assert len(lines) == len(IDS)
    assert f"{len(IDS)} claims: 0 confirmed" in out


def test_running_a_claim_runs_only_the_cells_it_needs(ablate, tmp_path, monkeypatch):
    launched = []

    def launch(cells, **options):
        launched.append((options["name"], [cell.changes for cell in cells]))
        for cell in cells:
            folder = tmp_path / "runs" / cell.id
            folder.mkdir(parents=True)
            (folder / "result.json").write_text("{}")

    monkeypatch.setattr("ablations.launch.launch", launch)
    monkeypatch.setattr("ablations.commands.prepare", lambda cells, runs: None)
    code, out, _ = ablate("claims", "run", "P9", "--no-wandb", "--format=csv")
    assert code == 0
    ((name, changes),) = launched
    assert name == "copy_choices"
    assert changes == [{}, {"design.position_injection": "values_only"}] * 8
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["claim_verdict"] == "not run"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show"], "'ablate claims show' needs the id of a claim, such as A5"),
        (["show", "Z1"], "'Z1' is no claim; there are A1, "),
        (["list", "A5"], "'list' takes no id"),
        (["sing"], "invalid choice: 'sing'"),
    ],
)
def test_wrong_words_are_one_line(ablate, words, message):
    code, out, err = ablate("claims", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
