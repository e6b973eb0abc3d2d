"""`ablate bootstrap`: pairs of runs compared over the sentences of a test set."""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.analysis_commands import put, results, study_view
from ablations.arguments import planned, same_command
from ablations.config import RunConfig
from ablations.plan import Plan
from ablations.tasks import Task
from data.paired_bootstrap import METRICS, paired_bootstrap

if TYPE_CHECKING:
    import pandas

    from analysis.sentence_tables import SentencePair


def bootstrap(arguments: Namespace) -> int:
    """Compare the output of each run with its baseline's, sentence by sentence."""
    cells, command = planned(arguments), same_command("sweep", arguments)
    task = cells.cells[0].config.task
    if task is not Task.translation:
        raise ValueError(f"{cells.name} is a study of {task.name}: it has no translations")
    metric = arguments.metric or (cells.study.metric if cells.study.metric in METRICS else "bleu")
    if metric not in METRICS:
        raise ValueError(f"--metric {metric}: no bootstrap over it; legal: {', '.join(METRICS)}")
    view = study_view(
        cells,
        metric=metric,
        split=arguments.split,
        command=command,
        mixed_code=arguments.mixed_code,
    )
    if view.split not in task.value.test_splits(cells.cells[0].config.data) or "@" in view.split:
        raise ValueError(f"--split {view.split}: name one whole test split of the study")
    frame = results(cells, arguments.runs, command=command)
    from analysis.frames import pairs, study_cells
    from analysis.sentence_tables import render

    known = study_cells(frame, view)
    beside = partial(_compared, cells, runs=arguments.runs, split=view.split, metric=metric)
    compared = [pair for axis in view.axes for pair in beside(pairs(known, view, axis), axis=axis)]
    if not compared:
        raise ValueError(f"no pair of runs of {cells.name} has finished; run '{command}'")
    put(render(compared, view, format=arguments.format), arguments.output)
    return 0


def _compared(
    cells: Plan, paired: "pandas.DataFrame", *, axis: str, runs: Path, split: str, metric: str
) -> "Iterator[SentencePair]":
    """The finished runs off the baseline level of an axis, each beside its partner."""
    from analysis.sentence_tables import SentencePair

    configs = {cell.id: cell.config for cell in cells.cells}
    both = paired[paired["difference"].notna()]
    for partner, members in both.groupby("partner", sort=False):
        references = _references(configs[str(partner)], split, cache_dir=runs / ".cache")
        outputs = {run: _output(runs / run, split, len(references)) for run in members["id"]}
        first, found = paired_bootstrap(
            _output(runs / str(partner), split, len(references)),
            outputs,
            references,
            metric=metric,
            language=configs[str(partner)].data.target_language,
        )
        for run, level, seed in members[["id", axis, "seed"]].itertuples(index=False):
            yield SentencePair(
                axis=axis,
                level=level,
                seed=seed,
                baseline_score=first.score,
                baseline_run=str(partner),
                run=run,
                **vars(found[run]),
            )


def _references(config: RunConfig, split: str, *, cache_dir: Path) -> list[str]:
    """The target sentences of a test split, those that are translated."""
    from data.translation import TranslationDataModule

    return TranslationDataModule(config.data, seed=0, cache_dir=cache_dir).references(split)


def _output(folder: Path, split: str, count: int) -> list[str]:
    """The translations that a run has kept."""
    file = folder / "hypotheses" / f"{split}.txt"
    if not file.is_file():
        raise ValueError(
            f"{file} is missing: run {folder.name} kept no translations; delete its folder and run "
            "it again"
        )
    lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    if len(lines) != count:
        raise ValueError(
            f"{file} holds {len(lines)} sentences, and the test set {count}: it was edited, or the "
            "data are others; name their folder with --data.path"
        )
    return lines
