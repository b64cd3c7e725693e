"""Rows, the nodes of a level, the settings of growth, and passes over the rows of all nodes, on all threads.

The rows of a node are a range of a buffer. Nodes of few rows are put into groups, each the work of one thread; those of
more than `BLOCK` rows come one after the other, with all threads on blocks of their rows. As sums are exact, blocks
add up to the same bits whatever their size: rows in several files or on several machines could be summed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, spans
from calcli.methods.mbct import kernels
from calcli.methods.mbct.kernels import (
    Cells,
    Children,
    Codes,
    Flags,
    Places,
    RowArrays,
    Rule,
    Scratch,
    Splits,
    Words,
    split_search,
    update,
)
from calcli.numeric import bins, losses
from calcli.numeric.side_by_side import on_threads
from calcli.numeric.threads import threads

Mask = NDArray[np.bool_]
SplitLoss = Literal["nll", "mvce", "mvce-sampled", "ece", "ece-sweep"]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows as MBCT sees them: the probability so far, the label, codes, and perhaps a weight, as in `RowArrays`.

    A buffer of rows: while trees grow, rows move to other places of it, or to those of a second one.
    """

    words: Words
    features: int
    weighted: bool

    @classmethod
    def empty(cls, rows: int, features: int, *, weighted: bool) -> Rows:
        """Memory for so many rows."""
        return cls(np.empty((rows, 1 + weighted + -(-features // 4)), dtype=np.uint64), features, weighted)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def prob(self) -> FloatArray:
        return np.abs(self.words.view(np.float64)[:, 0])

    @property
    def label(self) -> Flags:
        return (self.words[:, 0] >> np.uint64(63)).astype(np.uint8)

    @property
    def numbers(self) -> Codes:
        """The numbers of 16 bits, of which the words of each row are made."""
        return self.words.view(np.uint16)

    @property
    def first_code(self) -> int:
        return 8 if self.weighted else 4

    @property
    def codes(self) -> Codes:
        return self.numbers[:, self.first_code : self.first_code + self.features]

    @property
    def weight(self) -> FloatArray:
        """The weights; empty where none were given."""
        return self.words.view(np.float64)[:, 1] if self.weighted else np.empty(0)

    @property
    def mass(self) -> float:
        return float(self.weight.sum()) if self.weighted else float(len(self))

    @property
    def weights(self) -> FloatArray:
        """The weights; ones where none were given."""
        return self.weight if self.weighted else np.ones(len(self))

    @property
    def arrays(self) -> RowArrays:
        return RowArrays(self.words, self.codes, self.weighted)

    def put(self, some: slice, prob: FloatArray, label: NDArray[Any]) -> None:
        """Let some rows have these probabilities and labels."""
        np.copysign(prob, 0.5 - label, out=self.words.view(np.float64)[some, 0])

    def take(self, chosen: Mask | Places | slice) -> Rows:
        """Some of the rows; a slice shares their memory."""
        return Rows(self.words[chosen], self.features, self.weighted)

    def room(self) -> Rows:
        """A second buffer for as many rows."""
        return Rows(np.empty_like(self.words), self.features, self.weighted)


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Nodes of one level: their rows are ``start`` .. ``stop - 1``; their patterns, and the facts of their rows."""

    start: Places
    stop: Places
    pattern: FloatArray
    facts: FloatArray

    def __len__(self) -> int:
        return len(self.start)

    @property
    def count(self) -> FloatArray:
        return self.facts[:, kernels.COUNT]

    @property
    def mass(self) -> FloatArray:
        return self.facts[:, kernels.MASS]

    @classmethod
    def joined(cls, parts: Sequence[Nodes]) -> Nodes:
        """The nodes of all parts, which may be none."""
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return cls(none, none, np.zeros(0), np.zeros((0, kernels.FACTS)))
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__match_args__))

    def take(self, chosen: Mask | slice) -> Nodes:
        every = chosen.stop - chosen.start == len(self) if isinstance(chosen, slice) else chosen.all()
        if every:  # as in most levels of a tree, which come by the thousand
            return self
        return Nodes(self.start[chosen], self.stop[chosen], self.pattern[chosen], self.facts[chosen])


@dataclass(frozen=True, slots=True)
class Growth:
    """The settings on which a tree grows."""

    link: int
    """`kernels.ODDS` or `kernels.LINEAR`."""

    split_loss: SplitLoss
    """The loss that a split must lower."""

    depth: int
    """The greatest number of conditions on the way to a leaf."""

    min_weight: float
    """beta: the weight that a node must have to be split, and a branch to be one."""

    shrink: float
    """lambda or tau: how strongly a pattern is shrunk to its parent's."""

    rate: float = 1.0
    """The fraction of a tree's step that is taken."""

    @property
    def sums_tell(self) -> bool:
        """Whether the split loss follows from sums over rows; other losses need the rows themselves."""
        return self.split_loss in ("nll", "mvce")

    @property
    def rule(self) -> Rule:
        """The part that kernels need; the log-loss needs no sums of squares."""
        return Rule(self.link, self.split_loss != "nll", float(self.min_weight), self.shrink)

    @property
    def identity(self) -> float:
        """The pattern that changes nothing: b = 0 or k = 1."""
        return 0.0 if self.link == kernels.ODDS else 1.0

    @property
    def bin_size(self) -> float:
        """The rows of a bin of the calibration error: the paper wants at least two bins in every leaf."""
        return self.min_weight / 2.0

    def losses(self, outcome: FloatArray, count: FloatArray, mass: FloatArray) -> FloatArray:
        """The split loss of outcomes (`kernels.OUTCOMES`, the last axis) for so many rows of this weight.

        That is the change of the log-loss per row, or MVCE (equation 10) in closed form.
        """
        if self.split_loss != "mvce":
            loss: FloatArray = outcome[..., kernels.LOSS] / mass
            return loss
        bins = np.maximum(1.0, np.floor(count / self.bin_size))
        errors, squares = outcome[..., kernels.ERROR], outcome[..., kernels.SQUARE]
        mean, variance = losses.shuffled_moments(count, mass, errors, squares)
        return losses.shuffled_gap(mean, variance, count, bins)


def cells_of(rows: Rows, offsets: Places) -> Cells:
    """The cells of these rows, with `offsets` as in `Cells`."""
    squares = float(rows.weight @ rows.weight) if rows.weighted else float(len(rows))
    return cells_of_sums(offsets, rows.mass, squares, weighted=rows.weighted)


def cells_of_sums(offsets: Places, mass: float, squares: float, *, weighted: bool) -> Cells:
    """The cells of rows whose weights and squared weights have these sums."""
    return Cells(offsets.astype(np.uint32), np.array([bins.grid(mass), bins.grid(squares)]), weighted)


BLOCK = 1 << 18
"""About so many rows, of one node or of several together, are the work of one thread at a time."""

Block = tuple[int, int]
Result = TypeVar("Result")


def totals(rows: Rows, cells: Cells, link: int, *, squares: bool = True) -> FloatArray:
    """The facts of all rows; without `squares` only the first two sums among them."""

    def add(block: slice) -> FloatArray:
        facts = np.zeros(kernels.FACTS)
        split_search.add_totals(rows.take(block).arrays, link, squares, cells.grids, facts)
        return facts

    return np.asarray(np.sum(on_threads(add, spans(len(rows), BLOCK)), axis=0))


def log_loss(rows: Rows) -> float:
    """The sum of w times the log-loss over all rows."""

    def add(block: slice) -> float:
        return update.log_loss(rows.take(block).arrays)

    return sum(on_threads(add, spans(len(rows), BLOCK)))


def root_of(facts: FloatArray, growth: Growth) -> Nodes:
    """All rows, which have these facts, as one node."""
    pattern = split_search.pattern_of(growth.link, facts[0], facts[1], growth.identity, growth.shrink)
    return Nodes(np.array([0]), np.array([int(facts[kernels.COUNT])]), np.array([pattern]), facts[None])


def unsplit_outcome(facts: FloatArray, pattern: float, link: int) -> FloatArray:
    """The outcome of rows of these facts as they are, under this pattern; shape (1, `kernels.OUTCOMES`)."""
    outcome = np.zeros((1, kernels.OUTCOMES))
    split_search.judge_unsplit(facts, pattern, link, outcome[0])
    return outcome


def loss_of_facts(facts: FloatArray, growth: Growth) -> float:
    """The split loss of rows from sums over them."""
    outcome = unsplit_outcome(facts, growth.identity, growth.link)
    return float(growth.losses(outcome, facts[None, kernels.COUNT], facts[None, kernels.MASS])[0])


def search(rows: Rows, nodes: Nodes, cells: Cells, growth: Growth) -> Splits:
    """The branches that each node would have by each feature, and the outcome, from sums over its rows."""
    rule = growth.rule

    def small(group: slice) -> Splits:
        part = nodes.take(group)
        splits, histogram = _empty_splits(part, cells, rule), cells.histogram(squares=rule.squares)
        scratch = Scratch.of(len(histogram))
        end = split_search.search_nodes(
            rows.arrays, part.start, part.stop, part.pattern, part.facts, cells, rule, histogram, scratch, splits
        )
        return splits._replace(code=splits.code[:end], facts=splits.facts[:end])

    def large(place: int) -> Splits:
        node = nodes.take(slice(place, place + 1))
        return splits_of(_histogram(rows, node, cells, rule), node, cells, rule)

    return Splits.joined(_for_nodes(nodes, small, large))


def splits_of(histogram: FloatArray, node: Nodes, cells: Cells, rule: Rule) -> Splits:
    """`search` for one node, from the sums over its rows by cell."""
    splits = _empty_splits(node, cells, rule)
    mass = histogram[:, 0] + histogram[:, histogram.shape[1] // 2]
    heavy = np.flatnonzero(mass >= rule.min_weight).astype(np.uint32)
    end = split_search.search_node(histogram, heavy, float(node.pattern[0]), node.facts[0], cells, rule, splits, 0, 0)
    return splits._replace(code=splits.code[:end], facts=splits.facts[:end])


def _histogram(rows: Rows, node: Nodes, cells: Cells, rule: Rule) -> FloatArray:
    """The sums over the rows of one node by cell, with all threads on it."""

    def add(block: Block) -> FloatArray:
        histogram = cells.histogram(squares=rule.squares)
        split_search.add_to_histogram(rows.arrays, *block, cells, rule, histogram)
        return histogram

    start, stop = int(node.start[0]), int(node.stop[0])
    # Each block has memory of its own: no more of them than keep threads busy.
    size = max(BLOCK, -(-(stop - start) // (2 * threads())))
    return np.asarray(sum(on_threads(add, _blocks(start, stop, size))))


def _empty_splits(nodes: Nodes, cells: Cells, rule: Rule) -> Splits:
    """Memory for the splits of these nodes: `code` and `facts` for as many branches as there may be."""
    features = len(cells.offsets) - 1
    codes = cells.offsets[1:] - cells.offsets[:-1]
    with_code = np.minimum(np.floor(nodes.mass / rule.min_weight)[:, None], codes[None])
    rests, passing = with_code.size, int(codes.max())  # branches of what turns out to be no split are overwritten
    branches = int(with_code.sum()) + rests + passing
    return Splits(
        np.zeros((len(nodes), kernels.OUTCOMES)),
        np.zeros((len(nodes), features, kernels.OUTCOMES)),
        np.zeros((len(nodes), features), dtype=np.int64),
        np.empty(branches, dtype=np.uint16),
        np.empty((branches, kernels.FACTS)),
    )


def move_to_children(rows: Rows, target: Rows, nodes: Nodes, children: Children, starts: Places) -> None:
    """Copy the rows of each node to `target`, in the order of its children, whose rows begin at `starts` there."""
    places = starts.copy()  # where the next row of each child goes

    def small(group: slice) -> None:
        update.scatter_nodes(
            rows.arrays,
            nodes.start[group],
            nodes.stop[group],
            children.of(group),
            children.table,
            places,
            target.arrays,
        )

    def large(node: int) -> None:
        own, one = slice(children.first[node], children.stop[node]), children.alone(node)
        blocks = _blocks(int(nodes.start[node]), int(nodes.stop[node]), BLOCK)

        # A branch has rows of the first block, then of the second, ..: so each block can be moved on its own.
        def count(block: Block) -> Places:
            counts = np.zeros(len(one.code), dtype=np.int64)
            update.count_branches(rows.arrays, *block, one, one.table, counts)
            return counts

        counts = np.array(on_threads(count, blocks))
        block_places = starts[own] + np.cumsum(counts, axis=0) - counts

        def move(task: tuple[Block, Places]) -> None:
            block, to = task
            of_block = np.array(block[:1]), np.array(block[1:])
            update.scatter_nodes(rows.arrays, *of_block, one, one.table, to, target.arrays)

        on_threads(move, zip(blocks, block_places, strict=True))

    _for_nodes(nodes, small, large)


def calibrate_children(rows: Rows, nodes: Nodes, children: Children, patterns: FloatArray, link: int) -> None:
    """Calibrate the rows of each node by the patterns of its children, one for each; no row moves."""

    def small(group: slice) -> None:
        update.set_branches_of_nodes(
            rows.arrays, nodes.start[group], nodes.stop[group], children.of(group), children.table, patterns, link
        )

    def large(node: int) -> None:
        own, one = patterns[children.first[node] : children.stop[node]], children.alone(node)

        def work(block: Block) -> None:
            of_block = np.array(block[:1]), np.array(block[1:])
            update.set_branches_of_nodes(rows.arrays, *of_block, one, one.table, own, link)

        on_threads(work, _blocks(int(nodes.start[node]), int(nodes.stop[node]), BLOCK))

    _for_nodes(nodes, small, large)


def _for_nodes(nodes: Nodes, small: Callable[[slice], Result], large: Callable[[int], Result]) -> list[Result]:
    """Results in the order of the nodes, of `large` for each node of many rows and of `small` for groups of others.

    Large nodes come one after the other, groups on all threads.
    """
    groups = _groups(nodes)
    if len(groups) == 1:
        return [large(0) if nodes.stop[0] - nodes.start[0] > BLOCK else small(groups[0])]
    many_rows = nodes.stop - nodes.start > BLOCK
    results = {group.start: large(group.start) for group in groups if many_rows[group.start]}
    others = [group for group in groups if not many_rows[group.start]]
    results.update(zip((group.start for group in others), on_threads(small, others), strict=True))
    return [results[group.start] for group in groups]


def _groups(nodes: Nodes) -> list[slice]:
    """Successive nodes in groups of about `BLOCK` rows; a node of more is alone."""
    if len(nodes) == 0:
        return []
    rows = nodes.stop - nodes.start
    if rows.sum() < BLOCK:
        return [slice(0, len(nodes))]
    alone, group = rows > BLOCK, np.cumsum(rows) // BLOCK
    starts = 1 + np.flatnonzero((np.diff(group) > 0) | alone[1:] | alone[:-1])
    return [slice(low, high) for low, high in pairwise([0, *starts.tolist(), len(nodes)])]


def _blocks(start: int, stop: int, size: int) -> list[Block]:
    """Blocks of this size that cover the rows start .. stop - 1."""
    return [(start + span.start, start + span.stop) for span in spans(stop - start, size)]
