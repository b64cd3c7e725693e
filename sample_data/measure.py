"""Print the numbers of README.md: `python sample_data/measure.py` (about a minute).

It uses scikit-learn and CatBoost directly and nothing of calcli, so that what calcli reports on these tables can be
held against numbers it had no part in.
"""

# ruff: noqa: T201  (a script that prints its findings)

from pathlib import Path

import numpy as np
import polars as pl
from catboost import CatBoostClassifier, Pool
from generate import CLASSES, MEMBERS, build
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

HERE = Path(__file__).parent
NOT_FEATURES = ("row_id", "node_id", "photo", "day", "label")


def read(name: str) -> pl.DataFrame:
    """A committed table."""
    return pl.read_csv(HERE / name) if name.endswith(".csv") else pl.read_parquet(HERE / name)


def logit(p: np.ndarray) -> np.ndarray:
    """Log-odds."""
    return np.log(p) - np.log1p(-p)


def sigmoid(z: np.ndarray) -> np.ndarray:
    """Probability of log-odds."""
    return 1 / (1 + np.exp(-z))


def ece(y: np.ndarray, p: np.ndarray, bins: int = 15) -> float:
    """ECE of equal-width, right-closed bins."""
    code = np.clip(np.ceil(p * bins).astype(int) - 1, 0, bins - 1)
    gap = np.bincount(code, p - y, bins)
    return float(np.abs(gap).sum() / len(y))


def pool(frame: pl.DataFrame, baseline: np.ndarray | None, y: np.ndarray | None) -> Pool:
    """CatBoost's view of the features: text and booleans as categories, null as a category of its own."""
    features = frame.select(pl.exclude("^logit.*$", *NOT_FEATURES))
    text = (pl.String, pl.Categorical, pl.Boolean)
    categories = [name for name, dtype in features.schema.items() if dtype in text]
    columns = features.with_columns(pl.col(categories).cast(pl.String).fill_null("(null)"))
    numbers = [name for name in features.columns if name not in categories]
    columns = columns.with_columns(pl.col(numbers).cast(pl.Float64).fill_null(float("nan")))
    return Pool(columns.to_pandas(), y, cat_features=categories, baseline=baseline)


def boosted(rounds: int, loss: str = "Logloss") -> CatBoostClassifier:
    """A small CatBoost."""
    return CatBoostClassifier(
        iterations=rounds, depth=4, learning_rate=0.1, loss_function=loss, random_seed=0, verbose=False, thread_count=2,
        allow_writing_files=False,
    )  # fmt: skip


def line(name: str, y: np.ndarray, p: np.ndarray) -> None:
    """One row of a binary table."""
    print(f"| {name} | {log_loss(y, p):.4f} | {ece(y, p):.4f} | {roc_auc_score(y, p):.4f} |")


def binary(title: str, train: pl.DataFrame, test: pl.DataFrame, truth: np.ndarray, rounds: int) -> None:
    """Raw, global and feature-aware calibration, fitted on train and judged on test."""
    print(f"\n{title}: rate {train['label'].mean():.4f} train, {test['label'].mean():.4f} test")
    print("| score | NLL | ECE | AUC |\n| --- | --- | --- | --- |")
    y, y_test = train["label"].to_numpy().astype(int), test["label"].to_numpy().astype(int)
    z, z_test = (f["logit"].cast(pl.Float64).to_numpy() for f in (train, test))
    line("raw", y_test, sigmoid(z_test))
    platt = LogisticRegression(C=1e10).fit(z[:, None], y)
    line("Platt", y_test, platt.predict_proba(z_test[:, None])[:, 1])
    isotonic = IsotonicRegression(out_of_bounds="clip", y_min=1e-4, y_max=1 - 1e-4).fit(z, y)
    line("isotonic", y_test, isotonic.predict(z_test))
    base, base_test = (platt.decision_function(s[:, None]) for s in (z, z_test))
    model = boosted(rounds).fit(pool(train, base, y))
    # `predict` adds the baseline of the pool.
    line(
        "CatBoost on Platt",
        y_test,
        sigmoid(model.predict(pool(test, base_test, None), prediction_type="RawFormulaVal")),
    )
    alone = boosted(rounds).fit(pool(train, None, y))
    line("CatBoost without the score", y_test, alone.predict_proba(pool(test, None, None))[:, 1])
    line("the truth", y_test, truth)
    slope = platt.coef_[0, 0]
    print(f"Platt: slope {slope:.4f} = 1/{1 / slope:.2f}, intercept {platt.intercept_[0]:.4f}")


def by_value(frame: pl.DataFrame, column: str) -> None:
    """Rows, mean prediction over mean label, and Cox slope for each value of a column."""
    print(f"\n| {column} | rows | mean prediction / mean label | slope |\n| --- | --- | --- | --- |")
    for value in frame[column].unique().sort().to_list():
        part = frame.filter(pl.col(column).eq_missing(pl.lit(value)))
        y, z = part["label"].to_numpy().astype(int), part["logit"].cast(pl.Float64).to_numpy()
        slope = LogisticRegression(C=1e10).fit(z[:, None], y).coef_[0, 0]
        print(f"| {value} | {part.height} | {sigmoid(z).mean() / y.mean():.2f} | {slope:.2f} |")


def clicks(truths: dict[str, np.ndarray]) -> None:
    """The click tables."""
    train, test = read("train.parquet"), read("test.parquet")
    binary("clicks", train, test, truths["test.parquet"], 300)
    by_value(train, "device")
    by_value(train, "slot")
    places = train.group_by("device", "country").agg(
        pl.len(), q=(1 / (1 + (-pl.col("logit")).exp())).mean() / pl.col("label").mean()
    )
    places = places.filter(pl.col("len") >= 200)["q"]
    print(f"device x country with 200 rows or more: prediction/label from {places.min():.2f} to {places.max():.2f}")
    known = test["user_id"].is_in(train["user_id"].unique().to_list()).mean()
    users, campaigns = train["user_id"].n_unique(), train["campaign"].n_unique()
    print(f"{users} users, {campaigns} campaigns; test rows of known users {known:.3f}")

    y = train["label"].to_numpy()
    ensemble = CatBoostClassifier(
        iterations=1000, depth=6, langevin=True, posterior_sampling=True, bootstrap_type="No", random_seed=0,
        verbose=False, thread_count=2, allow_writing_files=False,
    ).fit(pool(train, None, y))  # fmt: skip
    doubt = []
    for frame in (test, read("ood.parquet")):
        u = ensemble.virtual_ensembles_predict(
            pool(frame, None, None), prediction_type="TotalUncertainty", virtual_ensembles_count=10
        )
        doubt.append(np.column_stack([u[:, 1], u[:, 1] - u[:, 0]]))
    outside = np.r_[np.zeros(len(doubt[0])), np.ones(len(doubt[1]))]
    for name, u in zip(("total", "knowledge"), np.concatenate(doubt).T, strict=True):
        print(f"out of domain against test, AUC of {name} uncertainty {roc_auc_score(outside, u):.3f}")


def four_classes(truths: dict[str, np.ndarray]) -> None:
    """The cat tables."""
    train, test = read("classes_train.csv"), read("classes_test.csv")
    order = sorted(CLASSES)
    columns = [f"logit_{name}" for name in order]
    V, V_test = train.select(columns).to_numpy(), test.select(columns).to_numpy()
    y, y_test = (np.searchsorted(order, f["label"].to_numpy().astype(str)) for f in (train, test))

    def softmax(v: np.ndarray) -> np.ndarray:
        e = np.exp(v - v.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def show(name: str, p: np.ndarray) -> None:
        right = p.argmax(axis=1) == y_test
        print(f"| {name} | {log_loss(y_test, p):.4f} | {ece(right, p.max(axis=1)):.4f} | {right.mean():.4f} |")

    print("\n| score | NLL | ECE (top label) | accuracy |\n| --- | --- | --- | --- |")
    show("raw", softmax(V_test))
    grid = np.exp(np.linspace(-1, 2, 601))
    losses = [log_loss(y, softmax(V / t)) for t in grid]
    best = grid[int(np.argmin(losses))]
    show("temperature", softmax(V_test / best))
    matrix = LogisticRegression(C=1e10, max_iter=1000).fit(V, y)
    show("matrix", matrix.predict_proba(V_test))
    base, base_test = (np.log(matrix.predict_proba(v)) for v in (V, V_test))
    model = boosted(100, "MultiClass").fit(pool(train, base, y))
    show("CatBoost on matrix", softmax(model.predict(pool(test, base_test, None), prediction_type="RawFormulaVal")))
    show("the truth", truths["classes_test.csv"][:, [CLASSES.index(name) for name in order]])
    print(f"temperature {best:.3f}")
    for lens in ("camera", "phone"):
        mask = (train["lens"] == lens).to_numpy()
        print(
            f"  {lens}: temperature {grid[int(np.argmin([log_loss(y[mask], softmax(V[mask] / t)) for t in grid]))]:.3f}"
        )


def graph(truths: dict[str, np.ndarray]) -> None:
    """The graph tables, half for fitting and half for judging."""
    rows, edges = read("graph_rows.parquet"), read("graph_edges.parquet")
    half = rows.height // 2  # the rows are in random order
    binary("graph", rows[:half], rows[half:], truths["graph_rows.parquet"][half:], 60)
    by_value(rows.drop_nulls("district"), "district")
    both = pl.concat([edges, edges.select(src="dst", dst="src")])
    around = (
        both.join(rows.select(dst="node_id", z="logit"), on="dst").group_by("src").agg(pl.col("z").mean(), pl.len())
    )
    near = rows.select("node_id").join(around, left_on="node_id", right_on="src", how="left", maintain_order="left")
    y, z = rows["label"].to_numpy().astype(int), rows["logit"].cast(pl.Float64).to_numpy()
    m = near["z"].fill_null(0.0).cast(pl.Float64).to_numpy()
    code = np.searchsorted(np.quantile(m, np.arange(1, 8) / 8), m)
    X = z[:, None] * (code[:, None] == np.arange(8))
    fitted = LogisticRegression(C=1e10).fit(X[:half], y[:half])
    line("a slope per eighth of the neighbours' mean logit", y[half:], fitted.predict_proba(X[half:])[:, 1])
    place = rows["district"].fill_null("").to_numpy().astype(str)
    p = np.empty(rows.height)
    for name in np.unique(place):
        here = place == name
        fit = here & (np.arange(rows.height) < half)
        p[here] = LogisticRegression(C=1e10).fit(z[fit, None], y[fit]).predict_proba(z[here, None])[:, 1]
    line("Platt per district", y[half:], p[half:])
    degree = near["len"].fill_null(0)
    alone = (degree == 0).sum()
    print(f"edges {edges.height}, degree {degree.min()} to {degree.max()}, mean {degree.mean():.2f}, alone {alone}")


def members(truths: dict[str, np.ndarray]) -> None:
    """The table of ensemble members."""
    frame = read("members.parquet")
    y = frame["label"].to_numpy()
    P = frame.select([f"member_{m}" for m in range(MEMBERS)]).to_numpy().astype(float)

    def entropy(p: np.ndarray) -> np.ndarray:
        return -(p * np.log(p) + (1 - p) * np.log1p(-p))

    mean = P.mean(axis=1)
    knowledge = entropy(mean) - entropy(P).mean(axis=1)
    x = frame.select("x1", "x2").to_numpy()
    dense = np.minimum(*(((x - c) ** 2).sum(axis=1) for c in ([-1.5, 0.0], [1.5, 1.0]))) < 1.5**2
    print(f"\nmembers: rate {y.mean():.4f}, from {P.min():.4f} to {P.max():.4f}, dense {dense.mean():.3f}")
    print("| score | NLL | ECE | AUC |\n| --- | --- | --- | --- |")
    for m in range(MEMBERS):
        line(f"member_{m}", y, P[:, m])
    line("the mean", y, mean)
    line("the truth", y, truths["members.parquet"])
    for name, part in (("dense", dense), ("rare", ~dense)):
        sd, k, total = logit(P[part]).std(axis=1).mean(), knowledge[part].mean(), entropy(mean)[part].mean()
        print(f"  {name}: spread of log-odds {sd:.3f}, knowledge {k:.4f} of total {total:.4f} nats")
    print(f"  AUC of knowledge for rare against dense {roc_auc_score(~dense, knowledge):.3f}")


if __name__ == "__main__":
    true = {name: made.truth for name, made in build().items()}
    clicks(true)
    four_classes(true)
    graph(true)
    members(true)
