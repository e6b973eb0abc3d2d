"""What `ablate status` does: it reads folders, and loads a queue or torch only where it must."""

from argparse import Namespace
from collections import Counter
from typing import TYPE_CHECKING

from ablations.arguments import planned
from ablations.kept import kept
from ablations.states import count_states, report_failures, state_of, without_result
from ablations.study_files import queue_file

if TYPE_CHECKING:
    from ablations.plan import Plan
    from ablations.queue import Queue


def status(arguments: Namespace) -> int:
    """Count results and failures, of one study or of the whole folder."""
    if arguments.study is not None:
        return _status_of_study(arguments)
    counts = Counter(state_of(folder) for folder in sorted(arguments.runs.glob("*/")))
    del counts["missing"]
    found = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    print(f"{arguments.runs}: {found or 'no runs'}")
    return 0


def _status_of_study(arguments: Namespace) -> int:
    plan = kept(arguments) or _planned(arguments)
    left = without_result(plan.cells, arguments.runs)
    queue = _queue(plan.name, arguments) if left else None
    queued = queue.states() if queue else {}
    print(count_states(plan.name, plan.cells, arguments.runs, queued=queued))
    from ablations.progress import at_work

    for line in at_work(plan.cells, arguments.runs, queue.workers() if queue else {}):
        print(line)
    report_failures(left, arguments.runs)
    return 0


def _planned(arguments: Namespace) -> "Plan":
    plan = planned(arguments)
    if plan.is_tuning:
        from ablations.analysis_commands import tuning_progress

        print(tuning_progress(plan))
    return plan


def _queue(name: str, arguments: Namespace) -> "Queue | None":
    file = queue_file(arguments.runs, name)
    if arguments.storage is None and not file.exists():
        return None
    from ablations.queue import Queue

    return Queue(arguments.storage or file, name=name)
