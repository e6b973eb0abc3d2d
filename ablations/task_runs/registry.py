"""Which part of a run belongs to which task."""

from pathlib import Path

from ablations.config import RunConfig
from ablations.task_runs.base import TaskRun
from ablations.task_runs.forecasting import ForecastingRun
from ablations.task_runs.language_modeling import LanguageModelingRun
from ablations.task_runs.sequences import SequenceRun
from ablations.task_runs.translation import TranslationRun
from ablations.tasks import Task

TASK_RUNS: dict[Task, type[TaskRun]] = {
    Task.translation: TranslationRun,
    Task.forecasting: ForecastingRun,
    Task.sequences: SequenceRun,
    Task.language_modeling: LanguageModelingRun,
}


def make_task_run(config: RunConfig, *, cache_dir: Path) -> TaskRun:
    """The task's part of a run, its data read.

    Raises:
        ValueError: data that cannot be read, or that the design cannot work on.
    """
    part = TASK_RUNS[config.task](config, cache_dir=cache_dir)
    part.refuse()
    return part
