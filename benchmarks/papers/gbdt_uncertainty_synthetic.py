"""The heart and the spiral of section 4 of "Uncertainty in Gradient Boosting via Ensembles", as numbers and pictures.

``python benchmarks/papers/gbdt_uncertainty_synthetic.py OUT [--quick]`` writes Markdown to stdout and pictures to OUT.

Heart: two categories of nine values each; in the cells outside there are 1000 rows with a mean and a variance of
their own, inside the heart there are none. Spiral: three classes wound around each other, and a plane to predict that
reaches beyond them. Both as in the authors' notebooks, but for the number of spiral points, which theirs do not show.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
from claims import claim

import calcli
from calcli.batch import FloatArray
from calcli.metrics.ranking import ood_auc
from calcli.uncertainty.decomposition import Decomposed

HEART = np.array([[int(cell) for cell in row] for row in (
    "111111111",
    "114111411",
    "140414041",
    "400040004",
    "140000041",
    "114000411",
    "111404111",
    "111141111",
    "111111111",
)])  # fmt: skip
"""Variance of each cell in hundredths; 0 is inside, without rows."""

REACH = 600.0
"""The plane that is predicted is twice this wide; the spirals fill a disc of radius 355."""


def heart_rows(per_cell: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    mean = rng.random(HEART.shape)
    row, column = (np.repeat(part, per_cell) for part in np.nonzero(HEART))
    label = rng.normal(mean[row, column], np.sqrt(HEART[row, column] * 0.01))
    return pl.DataFrame({"row": row.astype(str), "column": column.astype(str), "label": label})


def spiral_rows(points: int, noise: float = 0.1) -> pl.DataFrame:
    rng = np.random.default_rng(100)
    parts = []
    for arm in range(3):
        turn = np.sqrt(rng.random(points)) * 6 * np.pi
        angle = turn + arm * 2 * np.pi / 3
        spread = noise * turn**1.5
        x = -np.cos(angle) * turn**2 + rng.normal(size=points) * spread
        y = np.sin(angle) * turn**2 + rng.normal(size=points) * spread
        parts.append(plane(x, y).with_columns(label=pl.lit(arm)))
    return pl.concat(parts)


def plane(x: FloatArray, y: FloatArray) -> pl.DataFrame:
    """Points with rotated coordinates and the radius, which trees cannot make by themselves."""
    return pl.DataFrame({
        "east": x, "north": y, "x+y": x + y, "x-y": x - y, "2x+y": 2 * x + y, "x-2y": x - 2 * y,
        "x+2y": x + 2 * y, "2x-y": 2 * x - y, "radius": np.hypot(x, y),
    })  # fmt: skip


def two_ensembles(
    rows: pl.DataFrame, probe: pl.DataFrame, out: Path, virtual: int, **settings: object
) -> list[Decomposed]:
    """What an SGLB ensemble says of `probe`, and what the virtual ensemble of its first model says."""
    model = calcli.fit_ensemble(rows, **settings).model
    first = out / "first.cbm"
    first.write_bytes(model.ensemble.files[0])
    alone = calcli.fit_ensemble(rows, model=first, members=virtual, task=settings.get("task")).model
    first.unlink()
    return [model.predict(probe), alone.predict(probe)]


def heart(out: Path, quick: bool) -> None:
    rows, column = np.divmod(np.arange(HEART.size), HEART.shape[1])
    probe = pl.DataFrame({"row": rows.astype(str), "column": column.astype(str)})
    settings = {"members": 3, "trees": 300} if quick else {"members": 10, "trees": 1000}
    said = two_ensembles(heart_rows(100 if quick else 1000), probe, out, settings["members"], task="regression",
                         learning_rate=0.3, **settings)  # fmt: skip
    inside = HEART.ravel() == 0
    print("## Heart\n")
    print("| ensemble | knowledge inside, least | knowledge elsewhere, greatest | inside above all cells with rows "
          "| data, variance 0.01 | data, variance 0.04 |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- |")
    detected: dict[str, bool] = {}
    for name, parts in zip(("sglb", "virtual"), said, strict=True):
        least, most = parts.knowledge[inside].min(), parts.knowledge[~inside].max()
        data = [f"{parts.data[HEART.ravel() == level].mean():.4f}" for level in (1, 4)]
        detected[name] = least > most
        print(f"| {name} | {least:.2e} | {most:.2e} | {'yes' if least > most else 'NO'} | {' | '.join(data)} |")
    panels = [("true variance", HEART * 0.01), ("data uncertainty, sglb", said[0].data.reshape(HEART.shape))]
    panels += [(f"knowledge, {name}", one.knowledge.reshape(HEART.shape))
               for name, one in zip(("sglb", "virtual"), said, strict=True)]  # fmt: skip
    draw(panels, out / "heart.png", mask=HEART == 0)
    print()
    claim("knowledge uncertainty is highest where there are no rows (figure 2)", detected, "ensembles on the heart")


def spiral(out: Path, quick: bool) -> None:
    settings = {"members": 3, "trees": 300} if quick else {"members": 10, "trees": 1000}
    grid = np.linspace(-REACH, REACH, 60 if quick else 200)
    x, y = (part.ravel() for part in np.meshgrid(grid, grid))
    rows, probe = spiral_rows(300 if quick else 1000), plane(x, y)
    said = two_ensembles(rows, probe, out, settings["members"], task="class", learning_rate=0.1, **settings)
    outside = np.hypot(x, y) > rows["radius"].max()
    print("## Spiral\n")
    print("Of the points with at least half of the greatest total uncertainty: which are outside, not at a border?\n")
    print("| ensemble | data inside, mean | knowledge inside | outside | AUC of outside by knowledge | by total |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, parts in zip(("sglb", "virtual"), said, strict=True):
        unsure = parts.total > parts.total.max() / 2
        orders = (parts.knowledge, parts.total)
        areas = [ood_auc(part[unsure & ~outside], part[unsure & outside]).value for part in orders]
        means = [parts.data[~outside].mean(), parts.knowledge[~outside].mean(), parts.knowledge[outside].mean()]
        print(f"| {name} | " + " | ".join([*(f"{value:.3g}" for value in means), *(f"{a:.3f}" for a in areas)]) + " |")
    shape = (len(grid), len(grid))
    panels = [("total, sglb", said[0].total.reshape(shape))]
    panels += [(f"knowledge, {name}", one.knowledge.reshape(shape))
               for name, one in zip(("sglb", "virtual"), said, strict=True)]  # fmt: skip
    draw(panels, out / "spiral.png", points=rows)
    print()


def draw(
    panels: list[tuple[str, FloatArray]],
    path: Path,
    *,
    mask: FloatArray | None = None,
    points: pl.DataFrame | None = None,
) -> None:
    """Pictures side by side; each has its own scale, as in the paper."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    count = len(panels) + (points is not None)
    figure, axes = plt.subplots(1, count, figsize=(4.4 * count, 3.8), layout="constrained")
    places = list(axes)
    if points is not None:
        axis = places.pop(0)
        axis.scatter(points["east"], points["north"], c=points["label"], s=2, cmap="brg")
        axis.set(title="rows", xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal")
    for axis, (title, values) in zip(places, panels, strict=True):
        shown = np.ma.array(values, mask=mask if title.startswith("true") else None)
        if points is None:
            image = axis.imshow(shown, cmap="Reds", vmin=0)
        else:
            image = axis.imshow(shown, cmap="Blues", vmin=0, origin="lower", extent=(-REACH, REACH, -REACH, REACH))
        axis.set_title(title)
        figure.colorbar(image, ax=axis, shrink=0.8)
    figure.savefig(path, dpi=110)
    print(f"\n![The same as a picture]({path.name})\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer rows, models and trees")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    heart(asked.out, asked.quick)
    spiral(asked.out, asked.quick)


if __name__ == "__main__":
    main()
