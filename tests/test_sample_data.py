"""The committed sample tables are what `generate.py` writes, and are wrong in the ways their README says."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

HERE = Path(__file__).parents[1] / "sample_data"
ROWS = {
    "train.parquet": 30_000,
    "test.parquet": 10_000,
    "ood.parquet": 5_000,
    "classes_train.csv": 4_000,
    "classes_test.csv": 2_000,
    "graph_rows.parquet": 6_000,
    "graph_edges.parquet": 21_274,
    "members.parquet": 6_000,
    "answers_train.jsonl": 840,
    "answers_test.jsonl": 600,
    "judged.jsonl": 4_000,
}
CLICKS = ["train.parquet", "test.parquet"]
CATS = ["classes_train.csv", "classes_test.csv"]


def read(path: Path) -> pl.DataFrame:
    return {".csv": pl.read_csv, ".jsonl": pl.read_ndjson}.get(path.suffix, pl.read_parquet)(path)


@pytest.fixture(scope="module")
def generate() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("sample_data_generate", HERE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        patch.setattr(sys, "dont_write_bytecode", True)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def made(generate):
    return generate.build()


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    return {name: read(HERE / name) for name in ROWS}


def binary(frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return frame["label"].cast(pl.Int8).to_numpy().astype(float), frame["logit"].to_numpy().astype(float)


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def nll(y: np.ndarray, p: np.ndarray) -> float:
    return float(-np.mean(np.log(np.where(y == 1, p, 1 - p))))


def platt(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Slope and intercept by Newton."""
    X, w = np.column_stack([z, np.ones_like(z)]), np.zeros(2)
    for _ in range(25):
        p = sigmoid(X @ w)
        w += np.linalg.solve(X.T @ (X * (p * (1 - p))[:, None]), X.T @ (y - p))
    return w


def pud(frame: pl.DataFrame) -> float:
    y, z = binary(frame)
    return float(sigmoid(z).mean() / y.mean())


def softmax(v: np.ndarray) -> np.ndarray:
    e = np.exp(v - v.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class TestFiles:
    @pytest.mark.parametrize("name", ROWS)
    def test_committed_table_is_what_the_script_writes(self, name, generate, made, tables, tmp_path):
        generate.write(tmp_path, {name: made[name]})
        # The tolerance is one unit of the last digit that is written.
        assert_frame_equal(read(tmp_path / name), tables[name], categorical_as_str=True, rel_tol=0, abs_tol=1e-3)

    def test_a_second_run_writes_the_same_bytes_and_says_what_it_wrote(
        self, generate, made, tmp_path, capsys, monkeypatch
    ):
        """That a second run draws the same rows too is what the committed tables say."""
        generate.write(tmp_path / "a", made)
        monkeypatch.setattr(generate, "build", lambda: made)
        generate.main([str(tmp_path / "b")])
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(ROWS)
        assert sorted(path.name for path in (tmp_path / "b").iterdir()) == sorted(ROWS)
        for name in ROWS:
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name

    def test_rows_and_total_size(self, tables):
        assert {name: frame.height for name, frame in tables.items()} == ROWS
        assert sum((HERE / name).stat().st_size for name in ROWS) < 3_000_000

    def test_the_readme_describes_every_file_and_every_column(self, tables):
        text = (HERE / "README.md").read_text(encoding="utf-8")
        for name, frame in tables.items():
            assert f"`{name}`" in text
            for column in frame.columns:
                # Numbered and per-class columns may be described as a family.
                family = column.rsplit("_", 1)[0]
                assert f"`{column}`" in text or f"`{family}_" in text, (name, column)

    def test_no_table_holds_the_truth(self, made, tables):
        for name, frame in tables.items():
            truth = made[name].truth
            assert not [column for column in frame.columns if "true" in column or "truth" in column]
            if truth.ndim == 1 and truth.size:
                numbers = frame.select(pl.selectors.float()).fill_null(0.0)
                for column in numbers.columns:
                    assert not np.allclose(numbers[column].to_numpy(), truth, atol=1e-3), (name, column)

    def test_labels_agree_with_the_truth(self, made, tables):
        for name in [*CLICKS, "graph_rows.parquet", "members.parquet"]:
            y = tables[name]["label"].cast(pl.Int8).to_numpy()
            p = made[name].truth
            assert abs((y - p).sum()) < 4 * np.sqrt((p * (1 - p)).sum())


class TestClicks:
    def test_types(self, tables):
        assert dict(tables["train.parquet"].schema) == {
            "row_id": pl.Int32,
            "day": pl.Date,
            "hour": pl.Int8,
            "user_id": pl.Int32,
            "country": pl.String,
            "device": pl.String,
            "slot": pl.Categorical,
            "campaign": pl.String,
            "age": pl.Int8,
            "price": pl.Float32,
            "recency_days": pl.Float32,
            "logged_in": pl.Boolean,
            "label": pl.Int8,
            "logit": pl.Float32,
        }
        assert tables["test.parquet"].schema == tables["train.parquet"].schema
        train = dict(tables["train.parquet"].drop("label").schema)
        assert dict(tables["ood.parquet"].schema) == train

    @pytest.mark.parametrize("name", CLICKS)
    def test_labels_ids_and_nulls(self, name, tables):
        frame = tables[name]
        assert sorted(frame["label"].unique()) == [0, 1]
        assert 0.10 < frame["label"].mean() < 0.20
        assert frame["row_id"].n_unique() == frame.height
        assert frame["user_id"].n_unique() < frame.height / 2
        assert 150 <= frame["campaign"].n_unique() <= 201
        with_nulls = {column for column in frame.columns if frame[column].null_count()}
        assert with_nulls == {"country", "campaign", "age", "price", "recency_days", "logged_in"}
        assert frame["logit"].is_finite().all()

    def test_train_and_test_share_users_but_no_row(self, tables):
        train, test = (tables[name] for name in CLICKS)
        assert set(train["row_id"]).isdisjoint(test["row_id"])
        assert train["day"].max() < test["day"].min()
        assert 0.8 < test["user_id"].is_in(train["user_id"].unique().to_list()).mean() < 0.99

    def test_campaigns_have_a_long_tail(self, tables):
        counts = tables["train.parquet"]["campaign"].drop_nulls().value_counts(sort=True)["count"]
        assert counts[0] > 2_000
        assert counts[-1] < 60

    def test_the_score_is_over_confident_and_differently_per_slot(self, tables):
        train = tables["train.parquet"]
        assert 1 / platt(*binary(train))[0] == pytest.approx(1.8, abs=0.1)
        slopes = {slot: platt(*binary(part))[0] for (slot,), part in train.group_by("slot")}
        assert slopes["interstitial"] < 0.5 < slopes["banner"] < 0.65 < slopes["feed"]

    def test_the_score_is_biased_differently_per_device_and_country(self, tables):
        train = tables["train.parquet"]
        device = {name: pud(part) for (name,), part in train.group_by("device")}
        assert device["tv"] < 0.9 < 1.0 < device["desktop"] < 1.3 < 1.6 < device["phone"] < 2.0 < device["tablet"]
        places = [pud(part) for _, part in train.group_by("device", "country") if part.height >= 200]
        assert min(places) < 0.7
        assert max(places) > 3

    def test_a_global_map_helps_and_features_help_more(self, made, tables):
        train, test = (tables[name] for name in CLICKS)
        (y, z), (y_test, z_test) = binary(train), binary(test)
        a, b = platt(y, z)
        raw, scaled = nll(y_test, sigmoid(z_test)), nll(y_test, sigmoid(a * z_test + b))
        assert scaled < raw - 0.03

        # One shrunk Newton step per device x country, then one per campaign.
        fit, held_out = a * z + b, a * z_test + b
        for keys in (["device", "country"], ["campaign"]):
            p = sigmoid(fit)
            steps = (
                train.with_columns(e=y - p, h=p * (1 - p))
                .group_by(keys)
                .agg(step=pl.col("e").sum() / (pl.col("h").sum() + 10))
            )

            def step(frame, steps=steps, keys=keys):
                found = frame.join(steps, on=keys, how="left", nulls_equal=True, maintain_order="left")
                return found["step"].fill_null(0.0).to_numpy()

            fit, held_out = fit + step(train), held_out + step(test)
        aware = nll(y_test, sigmoid(held_out))
        assert aware < scaled - 0.015
        assert nll(y_test, made["test.parquet"].truth) < aware - 0.005

    def test_the_other_population_is_visibly_different(self, tables):
        train, ood = tables["train.parquet"], tables["ood.parquet"]
        assert "label" not in ood.columns
        assert set(ood["campaign"].unique()).isdisjoint(train["campaign"].unique())
        assert ood["age"].min() >= 60
        assert ood["price"].median() > 5 * train["price"].median()
        assert "console" in ood["device"].unique()
        assert set(ood["row_id"]).isdisjoint([*train["row_id"], *tables["test.parquet"]["row_id"]])


class TestClasses:
    @pytest.mark.parametrize("name", CATS)
    def test_labels_columns_and_nulls(self, name, generate, tables):
        frame = tables[name]
        classes = [column.removeprefix("logit_") for column in frame.columns if column.startswith("logit_")]
        assert classes == list(generate.CLASSES)
        assert classes != sorted(classes)
        assert set(frame["label"]) == set(classes)
        assert frame["label"].value_counts(normalize=True)["proportion"].min() > 0.15
        assert frame["photo"].n_unique() == frame.height
        assert {column for column in frame.columns if frame[column].null_count()} == {"coat", "age_months", "weight_kg"}

    @pytest.mark.parametrize("name", CATS)
    def test_the_text_needs_a_real_csv_reader(self, name, tables):
        text = "".join(tables[name]["shelter"].unique())
        assert '"' in text
        assert "," in text
        assert not text.isascii()
        assert all(len(line) < 130 for line in (HERE / name).read_text(encoding="utf-8").splitlines())

    def test_the_scores_are_over_confident_and_more_so_for_phones(self, generate, tables):
        train = tables["classes_train.csv"]
        grid = np.linspace(0.8, 5, 85)

        def temperature(frame: pl.DataFrame) -> float:
            V = frame.select(f"logit_{name}" for name in generate.CLASSES).to_numpy()
            k = np.array([generate.CLASSES.index(name) for name in frame["label"]])
            losses = [-np.log(softmax(V / t)[np.arange(len(k)), k]).mean() for t in grid]
            return float(grid[int(np.argmin(losses))])

        assert 2 < temperature(train) < 2.6
        assert temperature(train.filter(lens="phone")) > temperature(train.filter(lens="camera")) + 1

    def test_the_truth_is_far_better(self, generate, made, tables):
        test = tables["classes_test.csv"]
        V = test.select(f"logit_{name}" for name in generate.CLASSES).to_numpy()
        k = np.array([generate.CLASSES.index(name) for name in test["label"]])
        truth = made["classes_test.csv"].truth
        np.testing.assert_allclose(truth.sum(axis=1), 1)
        loss = [-np.log(p[np.arange(len(k)), k]).mean() for p in (softmax(V), softmax(V / 2.3), truth)]
        assert loss[0] - 0.15 > loss[1] > loss[2] + 0.1


class TestGraph:
    def test_edges_join_known_nodes_once_and_never_themselves(self, tables):
        rows, edges = tables["graph_rows.parquet"], tables["graph_edges.parquet"]
        nodes = set(rows["node_id"])
        assert len(nodes) == rows.height
        assert set(edges["src"]) | set(edges["dst"]) <= nodes
        assert (edges["src"] < edges["dst"]).all()
        assert not edges.is_duplicated().any()
        alone = nodes - set(edges["src"]) - set(edges["dst"])
        assert 30 < len(alone) < 120

    def test_node_ids_are_not_row_numbers(self, tables):
        ids = tables["graph_rows.parquet"]["node_id"]
        assert ids.min() > 60_000
        assert ids.max() - ids.min() > len(ids)
        assert not ids.is_sorted()

    def test_confidence_is_wrong_by_neighbourhood(self, tables):
        rows, edges = tables["graph_rows.parquet"], tables["graph_edges.parquet"]
        slopes = {name: platt(*binary(part))[0] for (name,), part in rows.drop_nulls("district").group_by("district")}
        assert len(slopes) == 16
        assert max(slopes.values()) > 1
        assert min(slopes.values()) < 0.3
        # A network that sees logits only can know it from the neighbours.
        both = pl.concat([edges, edges.select(src="dst", dst="src")])
        near = both.join(rows.select(dst="node_id", near="logit"), on="dst").group_by("src").agg(pl.col("near").mean())
        with_near = rows.join(near, left_on="node_id", right_on="src")
        low, high = (with_near.filter(side) for side in (pl.col("near") < -0.5, pl.col("near") > 1.5))
        assert platt(*binary(low))[0] > 2 * platt(*binary(high))[0]


class TestMembers:
    def test_columns(self, tables):
        frame = tables["members.parquet"]
        members = [f"member_{m}" for m in range(10)]
        assert frame.columns == ["row_id", "x1", "x2", "label", *members]
        P = frame.select(members).to_numpy()
        assert P.min() > 0
        assert P.max() < 1

    def test_members_disagree_where_rows_are_rare_and_their_mean_is_better(self, generate, made, tables):
        frame = tables["members.parquet"]
        y = frame["label"].to_numpy().astype(float)
        P = frame.select(f"member_{m}" for m in range(generate.MEMBERS)).to_numpy().astype(float)
        spread = np.log(P / (1 - P)).std(axis=1)
        x = frame.select("x1", "x2").to_numpy()
        cell = np.floor(x).astype(int)  # cells of size one
        _, code, count = np.unique(cell, axis=0, return_inverse=True, return_counts=True)
        here = count[code.ravel()]
        assert spread[here < 20].mean() > 4 * spread[here > 200].mean()
        mean = nll(y, P.mean(axis=1))
        assert all(nll(y, p) > mean + 0.004 for p in P.T)
        assert nll(y, made["members.parquet"].truth) < mean


class TestAnswers:
    @staticmethod
    def columns(frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The label, the log-odds of the answer's probability, and what the model says."""
        y = frame["metrics"].struct.field("correct").to_numpy().astype(float)
        logprob = frame["filtered_resps"].list.get(0).list.get(0).cast(pl.Float64).to_numpy()
        said = frame["response"].struct.field("confidence").to_numpy()
        return y, logprob - np.log(-np.expm1(logprob)), said

    def test_the_numbers_of_the_readme(self, tables):
        y, z, _ = self.columns(tables["answers_train.jsonl"])
        slope, intercept = platt(y, z)
        y_test, z_test, said = self.columns(tables["answers_test.jsonl"])
        rows = ~np.isnan(said)
        y_test, z_test, said = y_test[rows], z_test[rows], said[rows]
        scores = (sigmoid(z_test), np.clip(said, 0.0, 1 - 1e-12), sigmoid(slope * z_test + intercept))
        assert [nll(y_test, score) for score in scores] == pytest.approx([0.5680, 0.6846, 0.4682], abs=1e-3)
        assert (y.mean(), sigmoid(z).mean()) == pytest.approx((0.60, 0.76), abs=0.005)

    def test_labels_agree_with_the_truth_and_questions_are_in_one_table(self, made, tables):
        for name in ("answers_train.jsonl", "answers_test.jsonl"):
            y, p = self.columns(tables[name])[0], made[name].truth
            assert abs((y - p).sum()) < 4 * np.sqrt((p * (1 - p)).sum())
            assert tables[name].group_by("doc_id").len()["len"].unique().to_list() == [3]
        assert not set(tables["answers_train.jsonl"]["doc_id"]) & set(tables["answers_test.jsonl"]["doc_id"])

    def test_the_slope_depends_on_the_task(self, tables):
        frame = tables["answers_train.jsonl"]
        slopes = {}
        for (task,), part in frame.group_by("task"):
            y, z, _ = self.columns(part)
            slopes[task] = platt(y, z)[0]
        written = {"arithmetic": 1.23, "medicine": 0.92, "geography": 0.91, "law": 0.60}
        assert slopes == pytest.approx(written, abs=0.005)
