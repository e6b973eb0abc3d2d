"""The commands of `ablate` that draw a model; heavy packages are imported where they are used."""

from argparse import Namespace

from ablations.arguments import asked_config, located, overrides


def attention(arguments: Namespace) -> int:
    """Draw what the heads of a run attend to in one example."""
    from ablations.attention import attend
    from ablations.attention_examples import Choice
    from ablations.finished import open_run
    from analysis.attention_maps import save_maps

    asked = located(overrides(arguments))
    found = attend(
        open_run(arguments.run, runs_dir=arguments.runs),
        Choice(
            split=arguments.split,
            index=arguments.example,
            text=arguments.text,
            channel=arguments.channel,
        ),
        cache_dir=arguments.runs / ".cache",
        data_path=asked.get("data.path"),
    )
    print(found.title)
    for picture in save_maps(
        found.weights,
        found.heads,
        title=found.title,
        unit=found.unit,
        folder=arguments.output,
    ):
        print(f"figure: {picture}")
    print(f"heads: {arguments.output / 'heads.csv'}")
    return 0


def positions(arguments: Namespace) -> int:
    """Draw the position table of a run, or of a design."""
    asked = overrides(arguments)
    if arguments.run is not None and (asked or arguments.config):
        named = next(iter(asked), "config")
        raise ValueError(f"--{named}: run {arguments.run} has a config already; leave one out")
    config = None if arguments.run is not None else asked_config(arguments)
    from ablations.finished import open_run
    from ablations.position_tables import design_tables, run_tables
    from analysis.position_tables import save_positions, wave_sentence

    if config is None:
        found = run_tables(open_run(arguments.run, runs_dir=arguments.runs))
    else:
        found = design_tables(config)
    print(found.title)
    if not found.waves.empty:
        for stack, waves in found.waves.groupby("stack", sort=False):
            print(f"{stack}: {wave_sentence(waves)}")
    for file in save_positions(
        found.table, found.waves, title=found.title, folder=arguments.output
    ):
        print(f"{'figure' if file.suffix == '.png' else 'wavelengths'}: {file}")
    return 0
