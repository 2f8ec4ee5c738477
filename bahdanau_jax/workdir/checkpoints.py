"""Saving and restoring the state of training: asynchronous, atomic, checked by checksums.

    latest/00002000/    the last few saves
    best/00001500/      copies of the best few, which the pruning of `latest` never touches
    writing/            saves that aren't complete; never read

A save is renamed into place after its checksums are written, so whatever lies in `latest/` and
`best/` was complete once. Arrays are in Orbax's OCDBT format, all else is JSON. No other module
imports Orbax.
"""

import concurrent.futures
import errno
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import jax
import orbax.checkpoint as ocp
from flax.traverse_util import flatten_dict

from bahdanau_jax import durable
from bahdanau_jax.errors import InputError, flat, is_full
from bahdanau_jax.runtime import processes
from bahdanau_jax.stored_files import read_json
from bahdanau_jax.workdir.checkpoint_arrays import abstract, address, check_fit, items

KEEP_LATEST = 2
RUN, RANKING = "run", "ranking"  # in the saved progress, beside what the loop gave

Which = int | Literal["latest", "best"]


def _is_not_orbax_chatter(record: logging.LogRecord) -> bool:
    if "orbax" not in Path(record.pathname).parts:
        return True
    error = record.exc_info[1] if record.exc_info else None
    full = is_full(RuntimeError(record.getMessage())) or (error is not None and is_full(error))
    return record.levelno >= logging.ERROR and not full


# Orbax describes every step of a save at INFO and WARNING through absl's logger, which it shares
# with the rest of the program; only its own records are dropped, those below ERROR, and those of a
# full disk, which it raises too.
logging.getLogger("absl").addFilter(_is_not_orbax_chatter)


class Restored(NamedTuple):
    """What a checkpoint held."""

    step: int  # updates done before the save
    state: Any  # the tree of arrays, shaped as the template
    progress: dict[str, Any]  # the loop's own state, as it was given to `save`


class Checkpoints:
    """The checkpoints of one run; its processes save, restore and choose together, in one order.

    Reading never writes, so a run may be evaluated while it trains. A context manager.

    Attributes:
      run: which run it is, as `manifest.identify` says; saved in each checkpoint.
      completed: told the step of each save once it is complete, in another thread.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        run: Mapping[str, str] = MappingProxyType({}),
        keep: int = KEEP_LATEST,
    ):
        """Opens them.

        Args:
          directory: of the checkpoints; made at the first save.
          run: which run it is; a checkpoint that says otherwise is refused.
          keep: how many of the newest saves stay, at least 1.
        """
        self.run, self._keep = run, keep
        self.completed: Callable[[int], None] = lambda step: None
        self._directory = Path(directory).absolute()
        self._writing = self._directory / "writing"
        handlers = ocp.DefaultCheckpointHandlerRegistry()
        arrays, text = ocp.StandardCheckpointHandler(), ocp.JsonCheckpointHandler()
        for item in ("params", "rest"):
            handlers.add(item, ocp.args.StandardSave, arrays)
            handlers.add(item, ocp.args.StandardRestore, arrays)
        handlers.add("progress", ocp.args.JsonSave, text)
        handlers.add("progress", ocp.args.JsonRestore, text)
        composite = ocp.CompositeCheckpointHandler(handler_registry=handlers)
        self._checkpointer = ocp.AsyncCheckpointer(composite)
        self._worker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: concurrent.futures.Future[None] | None = None

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def save(
        self, step: int, state: Any, progress: dict[str, Any], best: Sequence[int] = ()
    ) -> None:
        """Starts a save and returns once the arrays may be changed or donated.

        Waits for the save before this one, and raises what went wrong in it. A checkpoint of the
        same step is replaced; checkpoints of later steps, left by a run that was resumed from
        further back, are removed.

        Args:
          step: updates done so far, at least 0; names the checkpoint.
          state: tree of jax arrays (typed random keys included) with `params` at the top level.
          progress: the loop's own state; whatever JSON can hold, infinities and NaN included.
          best: steps of the best states so far, the best first, if this is one of them: it is
            kept under `best/` too, and no other than these. Else nothing.
        """
        self.wait()
        if processes.is_first():
            # What a killed run, or a save that failed, left half-written.
            shutil.rmtree(self._writing, ignore_errors=True)
            self._writing.mkdir(parents=True)
        self._check_room(state, copies=2 if step in best else 1)
        arrays = {name: ocp.args.StandardSave(tree) for name, tree in items(state).items()}
        known = {**progress, RUN: dict(self.run), RANKING: list(best)}
        self._checkpointer.save(
            self._writing / f"{step:08d}",
            args=ocp.args.Composite(**arrays, progress=ocp.args.JsonSave(known)),
            force=True,
        )
        self._pending = self._worker.submit(self._complete, step, tuple(best))

    def wait(self) -> None:
        """Waits until no save is under way, and raises whatever went wrong in it."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Waits for the last save, then ends the threads; raises what went wrong in it."""
        try:
            self.wait()
        finally:
            self._worker.shutdown()
            self._checkpointer.close()

    def latest_step(self) -> int | None:
        """Returns the newest checkpoint's step, None if there is no checkpoint."""
        self.wait()
        steps = [*self._saves("latest"), *self._saves("best")]
        return processes.from_first(max(steps, default=None))

    def best_steps(self) -> list[int]:
        """Returns the steps of the best checkpoints that are there, the best first."""
        self.wait()
        return self._ranked()

    def choose(self, which: Which) -> int:
        """Returns the step that `restore` would read; raises as it does."""
        return int(self._choose(which).name)

    def steps(self) -> list[int]:
        """Returns the steps of all checkpoints, the newest first."""
        self.wait()
        return sorted({*self._saves("latest"), *self._saves("best")}, reverse=True)

    def saved_run(self, kinds: Sequence[str] = ("latest", "best")) -> dict[str, str]:
        """Returns which run the newest checkpoint of some kinds is of; empty if it doesn't say."""
        self.wait()
        newest = max((x for kind in kinds for x in self._saves(kind).items()), default=None)
        if newest is None:
            return {}
        run = _saved_progress(newest[1]).get(RUN)
        return {name: str(x) for name, x in run.items()} if isinstance(run, dict) else {}

    def restore(self, template: Any, which: Which = "latest") -> Restored:
        """Reads a checkpoint, after checking every byte of it.

        A damaged checkpoint is reported as a warning and the newest good one is read instead.

        Args:
          template: tree like the state saved, of arrays or `jax.ShapeDtypeStruct`, for instance
            from `jax.eval_shape`. Leaves are placed by their `sharding`; one without goes to this
            process's first device.
          which: `latest`, `best`, or a step, which is then read from that step or not at all.

        Returns:
          The step, the state and the progress.

        Raises:
          InputError: there is no good checkpoint, or it doesn't fit the template.
        """
        while True:
            path = self._choose(which)
            try:
                return Restored(int(path.name), *self._load(path, template))
            except InputError:
                raise
            except Exception as error:  # a stranger's file may bring about any
                # A run that trains meanwhile may have removed it since it was chosen.
                if path.exists():
                    words = flat(error)[:200]
                    raise InputError(
                        f"the checkpoint {path} was written so, but can't be read ({words}); name "
                        "another with --checkpoint, or bring back a copy"
                    ) from error

    def restore_params(self, template: Any, which: Which = "best") -> Restored:
        """Reads the parameters alone, as evaluation needs them; the rest isn't even opened.

        Args:
          template: tree of the parameters; see `restore`.
          which: as in `restore`. Where there is no best checkpoint, `best` reads the latest.

        Returns:
          The step, the parameters and the progress.

        Raises:
          InputError: there is no good checkpoint, or it doesn't fit the template.
        """
        restored = self.restore({"params": template}, which)
        return restored._replace(state=restored.state["params"])

    def _complete(self, step: int, best: Sequence[int]) -> None:
        """Waits for Orbax, then writes checksums, moves the save into place and prunes."""
        self._checkpointer.wait_until_finished()
        if not processes.is_first():
            return
        name = f"{step:08d}"
        written = self._writing / name
        durable.write_checksums(written)
        durable.confirm_tree(written)
        if step in best:
            # A copy and not a link, so that one bad block can't spoil both. It comes first: a run
            # that dies in between resumes further back and finds the same best again.
            copy = shutil.copytree(written, self._writing / f"best-{name}")
            durable.confirm_tree(copy)
            self._move(copy, self._directory / "best" / name)
        self._move(written, self._directory / "latest" / name)
        self.completed(step)
        latest, former = self._saves("latest"), self._saves("best")
        kept = sorted(s for s in latest if s <= step)[-self._keep :]
        outdated = [path for s, path in latest.items() if s not in kept]
        outdated += [path for s, path in former.items() if step in best and s not in best]
        for path in outdated:
            self._remove(path)

    def _check_room(self, state: Any, copies: int) -> None:
        """Raises OSError in every process if the disk is too full: half a save helps nobody."""
        needed = copies * sum(getattr(leaf, "nbytes", 0) for leaf in jax.tree.leaves(state))
        fits = not processes.is_first() or shutil.disk_usage(self._writing).free > needed
        if not processes.from_first(fits):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._directory))

    def _move(self, source: Path, target: Path) -> None:
        target.parent.mkdir(exist_ok=True)
        if target.exists():
            self._remove(target)
        source.rename(target)
        durable.confirm(target.parent)

    def _remove(self, path: Path) -> None:
        # Renamed first, so that nobody ever reads a directory that is half gone.
        shutil.rmtree(path.rename(self._writing / f"removed-{path.parent.name}-{path.name}"))

    def _saves(self, kind: str) -> dict[int, Path]:
        """Returns the complete checkpoints under `latest` or `best`, by step."""
        paths = (self._directory / kind).glob("*")
        return {int(path.name): path for path in paths if path.name.isdecimal()}

    def _ranked(self) -> list[int]:
        """Returns the steps under `best/` in the order that the newest of them knew.

        It knew all that had been better before it; one that came later would lie there too.
        """
        saves = self._saves("best")
        known = _saved_progress(saves[max(saves)]).get(RANKING) if saves else None
        known = [step for step in known if step in saves] if isinstance(known, list) else []
        return [*known, *sorted(saves.keys() - {*known}, reverse=True)]

    def _choose(self, which: Which) -> Path:
        """Returns the path of the checkpoint to read; process 0 chooses for all.

        Raises:
          InputError: there is none, or another process finds another one in its place.
        """
        self.wait()
        chosen = None
        with processes.together():
            if processes.is_first():
                path = self._newest_good(which)
                chosen = [path.parent.name, path.name, durable.identity(path)]
        *names, identity = processes.from_first(chosen)
        path = self._directory.joinpath(*names)
        if processes.count() > 1:
            with processes.together():
                if durable.identity(path) != identity:
                    raise InputError(f"the checkpoint {path} isn't the one that process 0 reads")
        return path

    def _newest_good(self, which: Which) -> Path:
        # Copies under `best` come before all others if they're wanted, else after their twins.
        ranks = {s: -rank if which == "best" else s for rank, s in enumerate(self._ranked())}
        candidates = [
            (which == "best", ranks[s], s, False, path) for s, path in self._saves("best").items()
        ]
        candidates += [(False, s, s, True, path) for s, path in self._saves("latest").items()]
        if isinstance(which, int):
            candidates = [entry for entry in candidates if entry[2] == which]
        damaged = 0
        for *_, path in sorted(candidates, reverse=True):
            damage = durable.damage(path)
            if damage is None:
                if damaged:
                    logging.warning("reading %s instead", path)
                return path
            if path.exists():
                damaged += 1
                logging.warning("the checkpoint %s is damaged: %s", path, damage)
        wanted = f"checkpoint of step {which}" if isinstance(which, int) else "checkpoint"
        cause = f"there is no {wanted}; train first, or check the workdir's path"
        if damaged:
            cause = f"every {wanted} is damaged; bring back a copy, or remove all and train anew"
        raise InputError(f"{self._directory}: {cause}")

    def _load(self, path: Path, template: Any) -> tuple[Any, dict[str, Any]]:
        wanted = items(jax.tree.map(abstract, template))
        stored: Any = self._checkpointer.metadata(path).item_metadata
        check_fit(path, stored, wanted)
        asked = {name: ocp.args.StandardRestore(tree) for name, tree in wanted.items()}
        read = self._checkpointer.restore(
            path, args=ocp.args.Composite(**asked, progress=ocp.args.JsonRestore())
        )
        arrays = flatten_dict({item: read[item] for item in asked})
        state = jax.tree_util.tree_map_with_path(lambda path, _: arrays[address(path)], template)
        progress = dict(read["progress"])
        self._check_run(path, progress.pop(RUN, {}))
        progress.pop(RANKING, None)
        return state, progress

    def _check_run(self, path: Path, saved: Mapping[str, str]) -> None:
        if (own := self.run.get("id")) and saved.get("id", own) != own:
            raise InputError(
                f"the checkpoint {path} is of another run; bring back this run's own, or begin "
                "anew with --restart, which moves all of it aside"
            )
        if (own := self.run.get("config")) and saved.get("config", own) != own:
            raise InputError(
                f"the checkpoint {path} was saved under another configuration than config.json "
                "has; bring that back, or begin anew with --restart, which moves all of it aside"
            )


def _saved_progress(path: Path) -> dict[str, Any]:
    """Returns the progress of a checkpoint without checking it; empty where it can't be read."""
    try:
        progress = read_json(path / "progress" / "metadata")
    except (OSError, ValueError):
        return {}  # what is damaged is said when it is read
    return progress if isinstance(progress, dict) else {}
