"""Columns beside score and label: groups to report on, clusters to resample, times to order by, linked rows. Checks of
rows warn of mistakes in their labels, scores or units.

Labels may be shuffled, or not have come in yet: then the raw scores do not rank them. A score may be of the other
class, or a decision in place of a probability. Rows may belong to units that nobody has named: a column of ids whose
rows are alike beyond their scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import polars as pl

from calcli.batch import NO_SIDE_INPUTS, Batch, Edges, FloatArray, IntArray, SamplingUnits
from calcli.errors import DataError, UsageError
from calcli.methods import calibrator, catalog
from calcli.methods.calibrator import FittedMethod
from calcli.metrics.base import Options, Scored
from calcli.metrics.forms import OfProblems
from calcli.metrics.ranking import AUC_SUMS, Cells, auc
from calcli.numeric.bins import totals
from calcli.numeric.seeded import stream
from calcli.reports.measuring import raw_candidate
from calcli.reports.schema import ReportWarning
from calcli.state import Json
from calcli.tables.arrays import check_comparable, check_years
from calcli.tables.binding_types import Binding
from calcli.tables.checks import null_refused
from calcli.tables.features import named_like_units
from calcli.tables.labels import class_text
from calcli.tables.load import Loaded
from calcli.tables.paths import reading
from calcli.tables.scales import ENOUGH
from calcli.tables.side_tables import load_nodes, sample_features
from calcli.tables.source import Source
from calcli.tables.text import TEXT_TYPES

if TYPE_CHECKING:
    from calcli.methods.graphs.mixing import Adjacency

MOST_GROUPS = 1000
"""The largest number of groups in a report."""


class TableRows(Protocol):
    """Rows of a table that were read, with their row numbers in it; None if they are all.

    With `halved` each row of the table is two, one after the other.
    """

    @property
    def source(self) -> Source: ...

    @property
    def row_numbers(self) -> IntArray | None: ...

    @property
    def halved(self) -> bool: ...


def ranks(rows: TableRows, column: str, flag: str) -> IntArray:
    """The dense rank of each row's value, from 0; null is refused."""
    values = values_of(rows, column, flag)
    if values.null_count():
        raise null_refused(flag, column, values.null_count())
    return values.rank("dense").to_numpy().astype(np.int64) - 1


def in_units(loaded: Loaded, resample_by: str | None, order_by: str | None) -> Loaded:
    """The rows with the units that they belong to by one of these columns, if one is given."""
    units = units_of(loaded, resample_by, order_by)
    return loaded if units is None else replace(loaded, batch=replace(loaded.batch, units=units))


def units_of(rows: TableRows, resample_by: str | None, order_by: str | None = None) -> SamplingUnits | None:
    """The unit of each row by one of these columns, if one is given; else rows of the table are, if each is two."""
    if resample_by is not None and order_by is not None:
        raise UsageError("--resample-by and --order-by are both given", hint="keep the one that matters more")
    row = np.arange(0 if rows.row_numbers is None else len(rows.row_numbers)) // 2 if rows.halved else None
    if order_by is not None:
        return SamplingUnits(ranks(rows, order_by, "--order-by"), in_order=True, column=order_by, row=row)
    if resample_by is None:
        return None if row is None else SamplingUnits(row)
    return SamplingUnits(ranks(rows, resample_by, "--resample-by"), column=resample_by)


def distinct_texts(source: Source, column: str) -> tuple[str | None, ...]:
    """The distinct values of a column as text, null last; more than `MOST_GROUPS` where there are too many."""
    check_comparable(column, source.raw.collect_schema()[column], "--clusters-from")
    with reading(source.name):
        distinct = source.raw.select(pl.col(column).unique())
        values = distinct.head(MOST_GROUPS + 2).collect(engine="streaming").to_series()
    check_years(values)
    if values.dtype == pl.Enum:  # bins have an order of their own
        return tuple(values.sort(nulls_last=True).cast(pl.String))
    return tuple(values.cast(pl.String).unique().sort(nulls_last=True))


def groups(rows: TableRows, column: str) -> tuple[tuple[str | None, ...], IntArray]:
    """The distinct values of a column, null included, and for each row the index of its value."""
    values = values_of(rows, column, "--by")
    distinct = distinct_groups(values, column)
    return group_names(distinct), group_codes(values, distinct)


def groups_of_new_rows(rows: TableRows, column: str, label: str | None) -> tuple[tuple[str, ...], IntArray]:
    """As `groups`, of a column that the rows of a later table have too; the empty text stands for no value."""
    if column == label:
        raise UsageError(f"--by {column} is the label, which new rows do not have", hint="name another column")
    found, codes = groups(rows, column)
    texts = [name or "" for name in found]
    names = [*dict.fromkeys(filter(None, texts)), *[""] * ("" in texts)]
    return tuple(names), np.array([names.index(text) for text in texts], dtype=np.int64)[codes]


def distinct_groups(values: pl.Series, column: str) -> pl.Series:
    """The distinct values in their order, null last; an error where they are too many."""
    distinct = values.unique().sort(nulls_last=True)
    if distinct.dtype.is_float():
        distinct = distinct.set(distinct == 0.0, 0.0)  # either of -0 and 0, which are equal, was left
    check_years(distinct)
    if len(distinct) > MOST_GROUPS:
        raise DataError(
            f"--by: the column {column!r} has {len(distinct):,} different values, the maximum is {MOST_GROUPS:,}",
            hint="group its values, before",
        )
    return distinct


def group_names(distinct: pl.Series) -> tuple[str | None, ...]:
    """The groups as text, None for rows without a value."""
    return tuple(None if name is None else str(name) for name in distinct.cast(pl.String).to_list())


def group_codes(values: pl.Series, distinct: pl.Series) -> IntArray:
    """The place of each value among the distinct ones; -1 for a value that is none of them."""
    place = pl.DataFrame({"value": distinct, "place": np.arange(len(distinct))})
    codes = pl.DataFrame({"value": values}).join(place, on="value", how="left", nulls_equal=True, maintain_order="left")
    return codes["place"].fill_null(-1).to_numpy().astype(np.int64)


def codes(rows: TableRows, column: str) -> IntArray:
    """The dense rank of each row's value, from 0; a row without a value is alone."""
    rank = values_of(rows, column, "--resample-by").rank("dense").to_numpy()
    missing = np.isnan(rank)
    place = np.where(missing, 0, rank).astype(np.int64)
    place[missing] = int(place.max(initial=0)) + 1 + np.arange(int(missing.sum()))
    return np.unique(place, return_inverse=True)[1].astype(np.int64)


def numbers(rows: TableRows, column: str, flag: str) -> FloatArray:
    """The values of a column of numbers; NaN where there is none."""
    return as_numbers(values_of(rows, column, flag), flag)


def as_numbers(values: pl.Series, flag: str) -> FloatArray:
    """The numbers of a column that a flag names; NaN where there is none."""
    if not values.dtype.is_numeric():
        raise DataError(f"{flag}: the column {values.name!r} holds {values.dtype}, not numbers")
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def linked_rows(rows: TableRows, node_id: str | None, edges: Edges) -> IntArray:
    """The pairs of rows that an edge links, each once."""
    from calcli.methods.graphs.relation import links_within

    if node_id is None:
        raise UsageError("--edges needs the column with the ids of the rows", hint="add --node-id COLUMN")
    node, row_numbers = load_nodes(rows.source, node_id), rows.row_numbers
    return _once(links_within(edges, node if row_numbers is None else node.take(row_numbers)))


def related_rows(rows: TableRows, binding: Binding, fitted: FittedMethod) -> IntArray | None:
    """The pairs of rows that are linked as a calibrator links rows, or the group of each row; see `Scored`.

    None where it links none.
    """
    from calcli.methods.graphs.mixing import Cliques
    from calcli.methods.graphs.relation import Relation

    if fitted.sides.edges is not None:
        return linked_rows(rows, binding.node_id, fitted.sides.edges)
    if "relation" not in fitted.state.params:
        return None
    relation, row_numbers = Relation.from_params(fitted.state.params), rows.row_numbers
    features = [feature for feature in binding.features if feature.name in relation.columns]
    columns = sample_features(rows.source, features, max(1, rows.source.rows()))
    if row_numbers is not None:
        columns = {name: column.take(row_numbers) for name, column in columns.items()}
    count = len(columns[relation.columns[0]].values)
    graph = relation.graph(Batch(np.zeros(count), features=columns), NO_SIDE_INPUTS)
    return graph.group if isinstance(graph, Cliques) else _once(graph)


def _once(links: Adjacency) -> IntArray:
    """The pairs of linked rows, each once."""
    once = links.sources < links.ends
    return np.column_stack([links.sources[once], links.ends[once]])


def values_of(rows: TableRows, column: str, flag: str) -> pl.Series:
    """The column, for these rows."""
    source, row_numbers = rows.source, rows.row_numbers
    values = comparable(source, column, flag).collect(engine="streaming").to_series()
    return values if row_numbers is None else values.gather(row_numbers)


def comparable(source: Source, column: str, flag: str) -> pl.LazyFrame:
    """The column that a flag names, whose values can be compared."""
    check_comparable(source.named(column, flag), source.raw.collect_schema()[column], flag)
    return source.typed([column])


LEVEL = 0.01
"""Rows of a unit are alike if the p-value of `alike` is at most this."""

DRAWS = 499

MOST_ROWS = 20_000
"""The most rows that `alike` looks at; of more, those of some units."""


@dataclass(frozen=True, slots=True)
class LabelCheck:
    """The AUC of raw scores, and its standard error under the hypothesis that scores and labels are independent.

    That error is sqrt((n1 + n0 + 1) / (12 n1 n0)) (Mann & Whitney 1947). With more than two classes the AUC is the mean
    of one-vs-rest AUCs, and the mean of their errors bounds its error.
    """

    auc: float
    error: float

    @classmethod
    def of(cls, batch: Batch) -> LabelCheck | None:
        """The check of rows; None where all labels are of one class."""
        return cls.of_scored(raw_candidate(batch).scored(batch), batch.classes)

    @classmethod
    def of_area(cls, area: float | None, batch: Batch) -> LabelCheck | None:
        """The check of rows whose raw scores have this AUC."""
        return cls._of(area, totals(batch.labels, None, batch.classes))

    @classmethod
    def of_scored(cls, scored: Scored, classes: int) -> LabelCheck | None:
        """The check of probabilities beside their labels."""
        area = auc(scored, Options()).value
        return cls._of(area, totals(scored.label, None, classes))

    @classmethod
    def of_sums(cls, sums: OfProblems[Cells], count: FloatArray) -> LabelCheck | None:
        """The check from sums over rows; `count` is the number of rows of each class."""
        (area,) = AUC_SUMS.finish([sums], Options())
        return cls._of(area.value, count)

    @classmethod
    def _of(cls, area: float | None, count: FloatArray) -> LabelCheck | None:
        rows = count.sum()
        present = count[(count > 0) & (count < rows)]
        if area is None or len(present) == 0:
            return None
        errors = np.sqrt((rows + 1) / (12 * present * (rows - present)))
        return cls(area, float(errors.mean()))

    def beyond_chance(self, errors: float) -> bool:
        """Whether the AUC is above 0.5 by more than so many standard errors."""
        return self.auc - 0.5 > errors * self.error

    def to_json(self) -> dict[str, Json]:
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Json) -> LabelCheck | None:
        """The inverse of `to_json`; None for anything else."""
        if not isinstance(kept, dict):
            return None
        area, error = kept.get("auc"), kept.get("error")
        if isinstance(area, int | float) and isinstance(error, int | float):
            return cls(float(area), float(error))
        return None


def score_warnings(ranking: LabelCheck | None, prob: FloatArray, binding: Binding) -> Iterator[ReportWarning]:
    """Warnings about the raw score; `prob` are its probabilities, unclipped."""
    if ranking is not None and 0.5 - ranking.auc > 4 * ranking.error:
        yield ReportWarning("ranks-backwards", f"the score ranks backwards (auc {ranking.auc:.3f}): {_meant(binding)}")
    ends = _two_values(prob)
    if ends is not None:
        least, greatest = ends
        what = f"the score has only the values {least:.6g} and {greatest:.6g}"
        if ends == (0.0, 1.0):
            meant = "these are verdicts and no probabilities, and the raw log-loss means nothing; name probabilities "
            meant += "with --prob COL, let a fit find the rate behind each verdict, or see calcli estimate"
        else:
            meant = "if these are predicted classes, name their probabilities with --prob COL"
        yield ReportWarning("two-values", f"{what}: {meant}")


def _meant(binding: Binding) -> str:
    if not binding.binary:
        return "if its columns are not in the order of the classes, give that order with --classes A,B,..."
    if binding.score.kind == "rank":
        return "if small is sure, add --descending"
    other = next(class_text(label) for label in binding.classes if label != binding.positive)
    return f"if it predicts {other}, fit with --positive {other}"


def _two_values(prob: FloatArray) -> tuple[float, float] | None:
    """The only two values of a score, if there are enough rows to tell."""
    if len(prob) < ENOUGH:
        return None
    least, greatest = float(prob.min()), float(prob.max())
    return (least, greatest) if least < greatest and bool(np.isin(prob, (least, greatest)).all()) else None


def unit_warnings(loaded: Loaded) -> Iterator[ReportWarning]:
    """The columns of ids by which rows should be held out, where no column says how."""
    binding, schema = loaded.binding, loaded.source.raw.collect_schema()
    taken = {binding.label, binding.weight, binding.node_id, binding.trials, *binding.score.columns}
    ids = (name for name, dtype in schema.items() if dtype.is_integer() or dtype in TEXT_TYPES)
    names = [name for name in ids if named_like_units(name) and name not in taken]
    if loaded.batch.units is not None or loaded.batch.label is None or not names:
        return
    residual = _residuals(loaded.batch)
    for name in names:
        unit = codes(loaded, name)
        count = int(unit.max(initial=-1)) + 1
        if 2 <= count <= len(unit) / 2 and alike(residual, unit) <= LEVEL:
            each = len(unit) / count
            yield ReportWarning(
                "units",
                f"rows with the same {name!r} ({each:.3g} on average) have correlated residuals: held-out "
                f"results are too optimistic, intervals too narrow, and --drift would take for drift what is chance; "
                f"--resample-by {name} keeps them together",
            )


def alike(residual: FloatArray, unit: IntArray) -> float:
    """The p-value of the sum of the products of residuals over all pairs of rows of a unit.

    If rows are independent, and right on average, each residual is about as likely with the other sign: signs are drawn
    by row. `residual` has a column for each class.
    """
    if len(unit) > MOST_ROWS:
        drawn = stream(0, "units looked at").permutation(int(unit.max()) + 1)[unit]
        some = drawn < np.sort(drawn)[MOST_ROWS]
        residual, unit = residual[some], unit[some]
    count, rng = int(unit.max()) + 1, stream(0, "alike")

    def squares(sign: IntArray) -> float:
        return float(sum(np.square(totals(unit, sign * column, count)).sum() for column in residual.T))

    found = squares(np.ones(len(unit), dtype=np.int64))
    above = sum(squares(2 * rng.integers(0, 2, len(unit)) - 1) >= found for _ in range(DRAWS))
    return (1.0 + above) / (1.0 + DRAWS)


def _residuals(batch: Batch) -> FloatArray:
    """Labels less their probabilities once the scores are right on average, a column for each class (of two one)."""
    spec = catalog.find("platt" if batch.classes == 2 else "temperature")
    prob = calibrator.fit(spec, batch.bare, spec.resolve()).predict(Batch(batch.score))
    if batch.classes == 2:
        return (batch.labels - prob)[:, None]
    return np.eye(batch.classes)[batch.labels] - prob
