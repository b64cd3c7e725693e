"""What cannot be done on a cluster is said in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

import calcli
from tests.support.spark import Driver

pytest.importorskip("pyspark", reason="needs the extra spark")


@pytest.fixture(scope="module")
def places(days: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("places")
    calcli.fit(days, method="platt", output=folder / "kept")
    return {"days": days, **{name: folder / name for name in ("kept", "nowhere", "x")}}


SPARK = "--engine spark"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (f"apply kept nowhere -o x {SPARK}", 3, "Spark finds nothing at"),
        (f"apply kept - -o x {SPARK}", 2, "reads directories and files of Parquet"),
        (f"apply kept days -o - --output-format csv {SPARK}", 2, "reads and writes Par"),
        (f"apply kept days -o - --output-format parquet {SPARK}", 2, "-o DIR"),
        ("apply kept days -o x --master spark://h:1", 2, "add --engine spark"),
        ("fit days -o x --master spark://h:1", 2, "add --engine spark"),
        ("evaluate days --master spark://h:1", 2, "add --engine spark"),
        (f"evaluate days --by w {SPARK}", 3, "--by: the column 'w' has"),
        (f"evaluate days --by age --resample-by row_id {SPARK}", 2, "--by with --resample-by needs all rows at once"),
        (f"evaluate days --resample-by nobody {SPARK}", 3, "nobody"),
        (f"evaluate days --score w {SPARK}", 3, "looks like percentages, not probabilities"),
        (f"evaluate days --label w {SPARK}", 3, "it looks like a regression target"),
        (f"diagram days --binning mass {SPARK}", 2, "--binning mass needs all rows at once"),
        (f"fit days -o x -m platt --bins auto {SPARK}", 2, "--bins auto needs the number of held-out rows"),
        (f"fit days -m platt {SPARK}", 2, "try: -o NAME.platt"),
        (f"fit days -o x --resample-by user {SPARK}", 3, "--resample-by: no column 'user'"),
        (f"fit days -o x -m platt --logit age --label lable {SPARK}", 3, "did you mean 'label'?"),
        (f"fit days -o x -m platt --prob logit {SPARK}", 3, "looks like logits, not probabilities"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    places: dict[str, Path], driver: Driver, command: str, code: int, said: str
) -> None:
    assert said in driver.run(*(places.get(word, word) for word in command.split()), code=code).said
    assert not places["x"].exists()
