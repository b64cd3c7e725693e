"""Several scores of the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calcli.errors import DataError, UsageError
from calcli.tables.binding import bind, bind_score
from calcli.tables.binding_types import Flags
from calcli.tables.checks import Tally
from calcli.tables.load import load
from calcli.tables.passes import Reading, read_rows
from calcli.tables.scales import Scale
from calcli.tables.source import Source, open_source
from tests.support.tables import table

ROWS = {
    "label": [0, 1, 1, 0, 1, 0],
    "logit": [0.5, None, 1.0, -1.0, 2.0, 0.1],
    "calibrated": [0.6, 0.5, 1.5, 0.2, None, 0.4],
    "w": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}


def together(source: Source, *columns: str, keep_going: bool = True, **flags: Any) -> tuple[list[Any], Tally]:
    raw = bind(source, Flags(**flags), features=False)
    bindings = [raw, *(bind_score(source, raw, column) for column in columns)]
    tally = Tally(source, keep_going=keep_going)
    chunks = [batches for batches, _ in read_rows(tally, Reading(bindings, [None] * len(bindings)))]
    return chunks, tally


@pytest.mark.parametrize("text", [False, True])
def test_a_row_that_is_bad_for_one_is_bad_for_all(tmp_path: Path, text: bool) -> None:
    frame = pl.DataFrame(ROWS)
    if text:
        frame.write_csv(tmp_path / "t.csv")
    with open_source(tmp_path / "t.csv" if text else frame) as source:
        chunks, tally = together(source, "calibrated", weight="w")
    raw, calibrated = (np.concatenate([chunk[place].score for chunk in chunks]) for place in (0, 1))
    assert raw.tolist() == [0.5, -1.0, 0.1]
    assert (1 / (1 + np.exp(-calibrated))).tolist() == pytest.approx([0.6, 0.2, 0.4])
    for place in (0, 1):
        assert [label for chunk in chunks for label in chunk[place].labels] == [0, 0, 0]
    weight = np.concatenate([chunk[1].weight for chunk in chunks])
    assert weight / weight[0] == pytest.approx([1.0, 4.0, 6.0])
    assert (tally.rows, tally.rows_bad, tally.row_numbers.tolist()) == (6, 3, [0, 3, 5])


def test_the_refusal_says_which_score_it_was() -> None:
    with pytest.raises(DataError) as caught:
        together(table(ROWS), "calibrated", keep_going=False)
    said = str(caught.value)
    assert "3 bad rows of 6" in said
    for reason in ("the score is missing: 1", "(calibrated): 1", "the probability is outside [0, 1] (calibrated): 1"):
        assert reason in said
    assert "the first is row 2: the score is missing;" in said


def test_alone_it_reads_what_load_reads() -> None:
    source = table({**ROWS, "calibrated": [0.5] * 6})
    binding = bind(source, Flags(weight="w"), features=False)
    loaded = load(source, binding, features=False, bad_rows="null")
    chunks, tally = together(source, weight="w")
    for name in ("score", "label", "weight"):
        found = np.concatenate([getattr(chunk[0], name) for chunk in chunks])
        np.testing.assert_array_equal(found, getattr(loaded.batch, name))
    np.testing.assert_array_equal(tally.row_numbers, loaded.row_numbers)


def test_nothing_good_is_refused() -> None:
    with pytest.raises(DataError, match="2 bad rows of 2"):
        together(table({"label": [0, 1], "logit": [0.1, None], "p2": [None, 0.5]}), "p2")


def test_the_scale_is_looked_at_where_asked() -> None:
    source = table({"label": [0, 1] * 20, "logit": [0.3, -0.4] * 20, "calibrated": [-3.0, 4.0] * 20})
    raw = bind(source, features=False)
    other = bind_score(source, raw, "calibrated")
    suspect = [None, Scale(other.score, flags=False)]
    with pytest.raises(DataError, match=r"looks like logits, not probabilities.*a probability is wanted here"):
        list(read_rows(Tally(source, keep_going=True), Reading([raw, other], suspect)))


def test_a_score_is_a_column_or_a_stem() -> None:
    columns = {f"{stem}_{name}": [0.2, 0.3, 0.5] for stem in ("logit", "fine") for name in ("a", "b", "c")}
    source = table({"label": ["a", "b", "c"], **columns})
    raw = bind(source, features=False)
    assert bind_score(source, raw, "fine").score.columns == ("fine_a", "fine_b", "fine_c")
    with pytest.raises(DataError, match="--score fine_a is one column, but there are 3 classes"):
        bind_score(source, raw, "fine_a")
    with pytest.raises(DataError, match=r"--score: no columns fin_<class>, and no column 'fin'; did you mean"):
        bind_score(source, raw, "fin")


def test_a_column_plays_one_part() -> None:
    source = table(ROWS)
    raw = bind(source, Flags(weight="w"), features=False)
    for name in ("label", "w"):
        with pytest.raises(UsageError, match=f"'{name}' is the"):
            bind_score(source, raw, name)
