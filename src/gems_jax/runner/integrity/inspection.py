"""Inspection of a run folder: what is intact, what is damaged, and what can be recovered (`gems doctor RUN`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gems_jax.runner import checkpoint
from gems_jax.runner.directory import RunDirectory, identity, open_run, read_status
from gems_jax.runner.errors import NoRunError, RunError
from gems_jax.runner.integrity.links import find_strays
from gems_jax.runner.integrity.records import EXTRA
from gems_jax.runner.integrity.schema import check_record
from gems_jax.runner.leaves import read_leaves
from gems_jax.runner.writers import checksum_text, keep_rows, read_metrics


class Finding(NamedTuple):
    """State of one part of a run."""

    part: str
    intact: bool
    note: str


class Inspection(NamedTuple):
    """All findings, and a sentence about what can be recovered."""

    findings: tuple[Finding, ...]
    recovery: str

    @property
    def intact(self) -> bool:
        """Whether nothing is damaged."""
        return all(finding.intact for finding in self.findings)


def inspect_run(folder: Path) -> Inspection:
    """Inspects the files of a run: schemas, links, checksums, and whether checkpoints load and agree with the rows.

    Nothing is changed, and no game is made.

    Args:
      folder: folder of a seed or of a batch.

    Returns:
      The findings.

    Raises:
      NoRunError: if there is no such folder.
    """
    if not folder.is_dir():
        raise NoRunError(f"no run at {folder}: the folder does not exist")
    strays = [Finding("links", False, fault) for fault in find_strays(folder)]
    try:
        run, opened = open_run(folder), [Finding("config.json", True, "")]
    except RunError as error:
        if strays:  # the files may be anywhere: they are not read
            return Inspection(tuple(strays), "nothing is read before the links are replaced")
        run, opened = RunDirectory(folder, (folder,), ()), [Finding("config.json", False, str(error))]
    statuses = [_inspect(f"{_name(run, each)}status.json", partial(_status, each)) for each in run.folders]
    rows = [_inspect(f"{_name(run, each)}metrics.csv", partial(_rows, each)) for each in run.members]
    steps = checkpoint.iterations(run.checkpoints)
    saved = {step: _inspect(f"checkpoint {step}", partial(inspect_checkpoint, run, step)) for step in steps}
    findings = (*opened, *statuses, *rows, *saved.values())
    usable = [step for step, finding in saved.items() if finding.intact]
    return Inspection(findings, _recovery(run, usable, saved) if opened[0].intact else _without_config(run, usable))


def _inspect(part: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(part, True, check())
    except RunError as error:
        return Finding(part, False, str(error))


def _name(run: RunDirectory, folder: Path) -> str:
    return "" if len(run.folders) == 1 else f"{folder.name}/"


def _status(folder: Path) -> str:
    status = read_status(folder)
    return f"{status['state']}, iteration {status['iteration']} of {status['iterations']}"


def _rows(folder: Path) -> str:
    """Checks that the rows can be read and are numbered from 1."""
    if not (folder / "metrics.csv").exists():
        if checkpoint.iterations(folder / "checkpoints"):
            raise RunError(f"{folder / 'metrics.csv'} is missing")
        return "no rows yet"
    numbers = read_metrics(folder).get("iteration", ())
    for expected, number in enumerate(numbers, 1):
        if number != expected:
            raise RunError(f"{folder / 'metrics.csv'} is damaged: expected iteration {expected}, got {number:g}")
    return f"{len(numbers)} rows"


def inspect_checkpoint(run: RunDirectory, step: int) -> str:
    """Verifies one checkpoint: checksums, counters, identity, that its leaves load, and its rows.

    Args:
      run: folders of the run; without seeds, identity and rows are not compared.
      step: iteration of the checkpoint.

    Returns:
      A note on what was verified.

    Raises:
      RunError: if anything is damaged or does not fit.
    """
    path = run.checkpoints / f"{step:08d}"
    manifest = checkpoint.verify_checkpoint(path)
    check_record(manifest["extra"], EXTRA, path / "manifest.json")
    leaves = read_leaves(path / "state", manifest["leaves"])
    if run.seeds:
        checkpoint.check_identity(manifest["identity"], identity(run))
        _check_rows(run, step, manifest["extra"].get("rows"))
    summed = "rows agree" if manifest["extra"].get("rows") else "rows have no checksum"
    return f"{len(leaves)} leaves load, {summed}"


def _check_rows(run: RunDirectory, step: int, checksums: list[str] | None) -> None:
    if checksums and len(checksums) != len(run.members):
        raise RunError(f"checksums of rows: expected {len(run.members)}, got {len(checksums)}")
    for index, member in enumerate(run.members):
        checksum = checksums[index] if checksums else None
        count, kept = keep_rows(member / "metrics.csv", step)
        if count < step:
            raise RunError(f"{member / 'metrics.csv'} ends at iteration {count}")
        if checksum is not None and checksum_text(kept) != checksum:
            raise RunError(f"{member / 'metrics.csv'} differs from the rows of this checkpoint: a cell was changed")


def _recovery(run: RunDirectory, usable: list[int], saved: dict[int, Finding]) -> str:
    if not saved:
        return f"no checkpoint yet: gems resume {run.shared} starts from the first iteration"
    if not usable:
        return "no checkpoint can be resumed; readable rows can still be compared"
    later = [step for step in saved if step > usable[-1]]
    first = f"move the checkpoints after {usable[-1]} out of {run.checkpoints}; then " if later else ""
    return f"{first}gems resume {run.shared} continues from iteration {usable[-1]}"


def _without_config(run: RunDirectory, usable: list[int]) -> str:
    if not usable:
        return "nothing can be recovered without config.json"
    return f"restore config.json: {run.checkpoints}/{usable[-1]:08d}/manifest.json has game, method, seeds and settings"


def accept_rows(run: RunDirectory) -> Iterator[str]:
    """Stores the checksums of the present rows in every checkpoint that is intact otherwise.

    Args:
      run: folders of the run.

    Yields:
      A sentence for each checkpoint that was changed.
    """
    for step in checkpoint.iterations(run.checkpoints):
        path = run.checkpoints / f"{step:08d}"
        kept = [keep_rows(member / "metrics.csv", step) for member in run.members]
        if any(count < step for count, _ in kept):
            continue
        manifest: dict[str, Any] = checkpoint.verify_checkpoint(path)
        sums = [checksum_text(text) for _, text in kept]
        if manifest["extra"].get("rows") != sums:
            checkpoint.replace_extra(path, {**manifest["extra"], "rows": sums})
            yield f"checkpoint {step}: accepts the rows as they are"
