"""The command `soft_init report`: the thresholds as a table, a page and a picture."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from softcuda.errors import ConfigError
from softcuda.paths import CONFIG_NAME
from softcuda.profile.place import place_file
from softcuda.tools.display import thresholds_table
from softcuda.tools.init_existing import read_profile
from softcuda.tools.init_options import op_words
from softcuda.tools.init_output import Output
from softcuda.tools.report_curves import figures
from softcuda.tools.report_html import page
from softcuda.tools.report_markdown import finding
from softcuda.tools.report_png import picture
from softcuda.tools.report_sheet import sheet
from softcuda.tools.samples import measured_path, read_samples

__all__ = ["report"]


def report(argv: Sequence[str]) -> int:
    """Draw what the samples of a profile say; return the exit status.

    Args:
        argv: the words behind `soft_init report`.

    Raises:
        ConfigError: the profile or its samples cannot be read, or a file cannot be written.
        ArgumentError: --ops names something else.
        SystemExit: argparse has said what is wrong, or shown the help.
    """
    given = _parser().parse_args(argv)
    ops = op_words(given.ops)
    output = Output()
    profile = read_profile(given.file, output)
    ledger, owner = read_samples(measured_path(profile.path))
    made_for = profile.meta.get("device_hash", "")
    if owner[:1] != [made_for]:
        raise ConfigError(
            str(measured_path(profile.path)),
            None,
            f"the samples are of the machine {', '.join(owner[:1]) or 'nobody named'}, and "
            f"{given.file} is of {made_for or 'none'}; measure anew with soft_init",
        )
    found = figures(ledger, profile, ops)
    crossings = [line for line in profile.thresholds if not ops or line.op in ops]
    if crossings:
        output.say(thresholds_table(crossings))
    else:
        measured = (
            "the CPU alone was measured" if profile.device.type == "cpu" else "none was found"
        )
        output.say(f"no crossings: {measured}")
    folder, name = Path(given.output), Path(profile.path).stem
    _make(folder)
    stem = str(folder / name)
    title = f"softcuda on {profile.device.name or profile.device.cpu}"
    place_file(f"{stem}.html", page(profile, found).encode(), True, "the page")
    output.say(f"wrote {stem}.html: {len(found)} figures with their tables")
    place_file(f"{stem}.svg", sheet(title, found).encode(), True, "the picture")
    output.say(f"wrote {stem}.svg")
    if given.markdown is not None:
        text = finding(profile, ledger, found, name)
        written = str(folder / f"{given.markdown or name}.md")
        place_file(written, text.encode(), True, "the page")
        output.say(f"wrote {written}: the finding")
    drawn = picture(title, found)
    if drawn is None:
        output.say(
            "no picture: matplotlib is missing; pip install 'softcuda[plots]' brings it, "
            "in a checkout '.[plots]'"
        )
    else:
        place_file(f"{stem}.png", drawn, True, "the picture")
        output.say(f"wrote {stem}.png")
    return 0


def _make(folder: Path) -> None:
    """Make the folder of the pages where there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            str(folder), None, f"the folder for the pages cannot be made: {error.strerror or error}"
        ) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="soft_init report",
        description="Draw time against size of every operation, from the samples beside a "
        "profile: a page that needs nothing else, and a picture as SVG and, with matplotlib, PNG.",
    )
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", default=CONFIG_NAME, help="default: ./CONFIG.soft")
    add(
        "--output",
        metavar="FOLDER",
        default=".",
        help="where to write, made if missing; default: here",
    )
    add("--ops", metavar="OP,...", help="draw and print these ops only; default: all")
    add(
        "--markdown",
        metavar="NAME",
        nargs="?",
        const="",
        help="write the finding as a page of Markdown, too, NAME.md; default: named as FILE",
    )
    return parser
