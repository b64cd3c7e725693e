"""Run the benchmarks, and keep what they print as pages that docs/results.md lists.

``python benchmarks/run.py [NAME ...] [--quick] [--data DIR] [--raw DIR] [--out DIR] [--scratch DIR]``

DIR of ``--data`` holds pairs ``NAME.cal.parquet`` and ``NAME.test.parquet`` with labels, logits and features; that of
``--raw`` the tables that ``papers/`` train models on. What needs a folder that is not given is left out. NAME may be a
folder's: ``statistics`` is all that is in it. Every benchmark writes ``OUT/<name>.md`` (docs/results, unless
``--quick``), with the date, the versions and the machine on top, so that one can be run anew by itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results.md"
KEPT = HERE.parent / "docs" / "results"
KEPT_BESIDE = ("*.png", "arena.parquet", "arena.html")
"""Pictures, pages, and tables too long for one."""
GROUPS = {
    "speed": "Speed",
    "arena": "Quality",
    "statistics": "Statistics",
    "decisions": "Decisions",
    "papers": "The papers",
}
"""The titles of the page's sections, by the folders of the scripts."""


@dataclass(frozen=True)
class Benchmark:
    """A script, and what stands above what it prints.

    Attributes
    ----------
    arguments
        With ``{data}``, ``{raw}`` and ``{scratch}`` for folders.
    peers
        Packages whose versions matter.
    """

    name: str
    script: str
    title: str
    about: str
    arguments: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """By which it is asked for: its own name and that of its folder."""
        return {self.name, self.script.partition("/")[0]}

    def needs(self, folder: str) -> bool:
        return any(f"{{{folder}}}" in argument for argument in self.arguments)


BENCHMARKS = (
    Benchmark(
        "foundation", "speed/foundation.py", "Start-up, and apply compared with copying the file",
        "The start of the program compared with importing its libraries, and `fit` and `apply` compared with polars "
        "reading and writing the same file.", peers=("typer", "rich"),
    ),
    Benchmark(
        "evaluate", "speed/evaluate.py", "Metrics compared with scikit-learn",
        "Time and peak memory of `evaluate` with the default metrics, and the time that scikit-learn takes for them "
        "on the same arrays.", peers=("scikit-learn",),
    ),
    Benchmark(
        "mbct-speed", "speed/mbct.py", "Boosted trees compared with LightGBM",
        "MBCT grows calibration trees on integer-coded categories; LightGBM grows as many trees on the same columns.",
        peers=("lightgbm", "numba"),
    ),
    Benchmark(
        "recal-speed", "speed/recal.py", "RECAL compared with a graph built for each row",
        "Time and memory of a fit, and how many rows a second `recal` calibrates, compared with building the graph "
        "anew for each row. t is the temperature of a row.", peers=("torch", "torch-geometric"),
    ),
    Benchmark(
        "uncertainty-speed", "speed/uncertainty.py", "uncertainty apply compared with CatBoost",
        "The same ensemble on the same rows: `calcli uncertainty apply` from file to file, CatBoost's own functions on "
        "rows in memory, and polars copying the file. The last ratio is to the sum of the latter two.",
        peers=("catboost",),
    ),
    Benchmark(
        "auto-speed", "speed/auto.py", "fit by auto", "Processor time of whole processes.", peers=("catboost", "numba"),
    ),
    Benchmark(
        "cores", "speed/cores.py", "On one core and on many",
        "Processor time of the parts of a command on the sample data, 30,000 rows and ten features, dealt to 1 to 16 "
        "cores.",
        peers=("catboost", "numba"),
    ),
    Benchmark(
        "fits", "speed/fits.py", "Fits, and apply of every method, beside other packages",
        "Processor time of whole processes on one thread.", peers=("lightgbm", "mcgrad", "scikit-learn", "catboost"),
    ),
    Benchmark(
        "decisions-speed", "speed/decisions.py", "Decisions of a million rows",
        "Choosing a policy or sets on rows in memory, and applying it.", peers=("mapie",),
    ),
    Benchmark("growth", "speed/growth.py", "Growth",
              "Time and peak memory as the numbers of rows, features and classes grow."),
    Benchmark("growing", "speed/growing.py", "One machine, a warehouse, a cluster",
              "The same table on one machine, as SQL in DuckDB, and on Spark.",
              peers=("duckdb", "pyspark")),
    Benchmark("cluster", "speed/cluster.py", "Growth on a cluster",
              "The verbs on Spark as the numbers of rows and of workers grow.", peers=("pyspark",)),
    Benchmark(
        "sample-cost", "speed/sample_cost.py", "What a sample costs",
        "How far fits on few and on many of the same simulated rows are from the truth.", peers=("catboost",),
    ),
    Benchmark(
        "export", "speed/export.py", "Exported statements on databases",
        "How far from `apply`, how long, and how many characters.", peers=("duckdb", "chdb", "sqlglot", "pyspark"),
    ),
    Benchmark(
        "arena", "arena/arena.py", "The arena",
        "Methods of calcli and of other packages, with and without features, on held-out rows of prediction files, of "
        "new base models and of simulated clicks; its README says what is measured. A gain is the share by which a "
        "method lowers the log-loss of the raw score.",
        ("{data}", "--raw", "{raw}", "--out", "{scratch}"),
        ("scikit-learn", "netcal", "probmetrics", "betacal", "venn-abers", "uncertainty-calibration", "probcal",
         "mcgrad", "lightgbm", "catboost"),
    ),
    Benchmark(
        "why", "arena/why.py", "Why methods gain and lose",
        "Five files on which a method that looks at features gains, and three on which one loses; the files are those "
        "of the arena. A cell of a picture has at least 20 rows to judge on.",
        ("{data}", "--out", "{scratch}"), ("catboost", "shap"),
    ),
    Benchmark(
        "mixtures", "arena/mixtures.py", "Mixtures of methods",
        "The gain in log-loss of `pool`, compared with other ways to combine the same held-out predictions.",
        ("{data}", "--kept", "{scratch}/mixtures"),
    ),
    Benchmark(
        "many-rows", "arena/many_rows.py", "Fits of a million rows",
        "Methods that use the score only, beside other packages' implementations of the same method.",
        (), ("scikit-learn", "netcal", "probmetrics", "betacal", "venn-abers"),
    ),
    Benchmark(
        "held-out", "statistics/held_out.py", "Held-out gains: what fit reports, and what is so",
        "Simulated rows, fitted by one method with five folds.",
    ),
    Benchmark(
        "verdict", "statistics/verdict.py", "The verdict: how often it is wrong, and what it finds",
        "How often the joint test of `diagram` and `evaluate` rejects simulated scores, calibrated ones and others.",
    ),
    Benchmark(
        "intervals", "statistics/intervals.py", "P-values and intervals: how often they are wrong",
        "Simulations of the tests of Hosmer and Lemeshow and of Spiegelhalter, and of the intervals of differences in "
        "log-loss and of Cox's slope.",
    ),
    Benchmark(
        "kinds", "statistics/kinds.py", "Scores of other kinds: how often claims hold",
        "The claims of docs/statistics.md on U-shaped scores, those of a tree, deciles, heavy tails, wide, rare.",
    ),
    Benchmark(
        "drift", "statistics/drift.py", "Drift: false alarms, and nights until it is seen",
        "Simulations of `evaluate --drift` over many nights, with and without an effect that a night's rows share.",
    ),
    Benchmark(
        "refit", "statistics/refit.py", "Refit: a year of nights",
        "Simulated nights, with and without drift: the log-loss with `refit`, without any refit, and with a refit that "
        "always replaces.",
        ("--out", "{scratch}"),
    ),
    Benchmark(
        "gates", "statistics/gates.py", "Gates: how often they are wrong",
        "Simulated tables whose scores are right or wrong by a known amount: how often each gate fails.",
    ),
    Benchmark(
        "groups", "statistics/groups.py", "Groups: false alarms, and what is found",
        "Simulated tables with groups: how often calibrated scores have any group with an adjusted p-value of at most "
        "0.05, and how often one wrong group is found.",
    ),
    Benchmark(
        "segments", "statistics/segments.py", "Segments: false ones, and what is found",
        "How often `--find-segments` finds a segment in a calibrated score, and how often one that was planted.",
        ("{data}",), ("mcgrad",),
    ),
    Benchmark(
        "units", "statistics/units.py", "Units: intervals and p-values where rows belong together",
        "Simulated users whose rows share an effect, analysed by row and by user (`--resample-by`).",
    ),
    Benchmark(
        "estimate", "statistics/estimate.py", "Estimates where few rows have labels",
        "How often the interval of `calcli estimate` holds the true rate, and how wide it is, beside the labels alone "
        "and the textbook's prediction-powered interval.",
    ),
    Benchmark(
        "without-labels", "statistics/without_labels.py", "Estimates without labels, and with labels of chosen rows",
        "What `calcli estimate` says of rows without labels, beside the truth, and what labels of rows that it chose "
        "save.", ("{data}",),
    ),
    Benchmark(
        "laws", "statistics/laws.py", "Laws: what weights and the names of classes change",
        "By how much the probabilities of a fit, and the numbers of a report, differ where they must be the same.",
        peers=("catboost", "numba"),
    ),
    Benchmark(
        "auto-simulation", "statistics/auto.py", "Auto: what it leaves alone, and the gain that it reports",
        "Simulated scores with known truth, fitted by default.",
    ),
    Benchmark(
        "compare", "statistics/compare.py", "Compare: how often the best is the best",
        "Simulated scores with known truth: the probability of being the best that `compare` states, and the interval "
        "of the chosen method's gain.",
    ),
    Benchmark(
        "promises", "decisions/promises.py", "Promises: how often they are broken, and what they cost",
        "Thresholds, rows that are left open, classes, sets and intervals, on tables drawn from populations whose "
        "rates are known.", ("{data}", "{raw}"), ("mapie", "crepes", "kunko-judge-audit", "scikit-learn", "catboost"),
    ),
    Benchmark(
        "decision-costs", "decisions/costs.py", "What calibration is worth in money",
        "The cost of decisions on new rows: thresholds that follow from the costs, beside tuned ones.",
        ("{data}",), ("scikit-learn",),
    ),
    Benchmark("mbct-clicks", "papers/mbct_clicks.py", "MBCT on clicks",
              "What the paper is about, simulated: few positives, categories, a base model that errs by pairs of them. "
              "The truth is known. The base model is additive, otherwise than in the paper.", peers=("catboost",)),
    Benchmark("mbct-simulation", "papers/mbct_simulation.py", "MBCT, section 5.3",
              "Calibration metrics compared with the true calibration error, which a simulation knows."),
    Benchmark("mbct", "papers/mbct.py", "MBCT, tables and figures",
              "The claims of the paper on real prediction files; which of them hold.", ("{data}",)),
    Benchmark("ccl-clusters", "papers/own_ground.py", "CCL where clusters differ",
              "Simulated sub-populations, each with a calibration of its own. The truth is known.", ("ccl",)),
    Benchmark("ccl", "papers/ccl.py", "CCL and CECE",
              "The paper's tables 2 to 4 and its claims, on adult and diabetes130.", ("{data}",)),
    Benchmark("heterogeneous-network", "papers/own_ground.py", "Heterogeneous calibration of a blind network",
              "A simulated network that has learned too little of a category. The truth is known.", ("heterogeneous",)),
    Benchmark("heterogeneous", "papers/heterogeneous.py", "Heterogeneous calibration",
              "The paper's tables 1 and 2, on adult and diabetes130.",
              ("{data}",)),
    Benchmark("recal-relations", "papers/own_ground.py", "RECAL where errors follow a relation",
              "Simulated rows of regions, whose errors follow the region in three ways. The truth is known.",
              ("recal",), ("torch",)),
    Benchmark("recal", "papers/recal.py", "RECAL", "The paper's tables 2 to 6, on other data.", ("{data}/..",)),
    Benchmark(
        "uncertainty", "papers/gbdt_uncertainty.py", "Uncertainty of gradient boosting",
        "The paper's figures 2 to 4, and its tables 1 and 4 to 7.", ("{raw}", "{scratch}"),
        ("catboost", "scikit-learn"),
    ),
    Benchmark("claims", "papers/claims.py", "The papers' claims",
              "What five papers claim, and whether it holds or fails: on data of the paper's own kind, and elsewhere."),
)  # fmt: skip


def known_version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"without {package}"


def head(benchmark: Benchmark, given: list[str]) -> str:
    """When, with what, on what."""
    packages = [known_version(name) for name in ("calcli-calibration", "numpy", "polars", *benchmark.peers)]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    command = " ".join(["python", f"benchmarks/{benchmark.script}", *given])
    return f"`{command}`, {datetime.now(UTC):%Y-%m-%d}; {machine}; {', '.join(packages)}.\n"


def run(benchmark: Benchmark, folders: dict[str, str], out: Path, *, quick: bool) -> bool:
    """Whether it ended well; what it printed is kept if it did."""
    words = [argument.format(**folders) for argument in benchmark.arguments] + ["--quick"] * quick
    shown = [argument.format(data="DATA", raw="RAW", scratch="OUT") for argument in benchmark.arguments]
    print(f"{benchmark.name} ...", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, str(HERE / benchmark.script), *words], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode == 0:
        for pattern in KEPT_BESIDE:
            for file in Path(folders["scratch"]).glob(pattern):
                shutil.copy(file, out)
        text = re.sub("^#", "##", done.stdout.strip(), flags=re.MULTILINE)
        (out / f"{benchmark.name}.md").write_text(
            f"# {benchmark.title}\n\n{benchmark.about}\n\n{head(benchmark, shown)}\n{text}\n"
        )
    return done.returncode == 0


def page(out: Path) -> str:
    """The list of all pages that were kept."""
    parts = [
        "# Results\n\nWhat the benchmarks printed, also where calcli loses. Each page has the command, the date, the "
        "machine and the versions on top. `just bench NAME` runs one of them again, `just bench` runs all. To begin "
        "with: [whether the papers' claims hold](results/claims.md), [all methods beside other packages' on the same "
        "files](results/arena.md), [what fits and `apply` cost](results/fits.md).\n"
    ]
    for folder, title in GROUPS.items():
        kept = [one for one in BENCHMARKS if one.script.startswith(f"{folder}/") and (out / f"{one.name}.md").exists()]
        parts += [f"## {title}\n", *(f"- [{one.title}](results/{one.name}.md). {one.about}" for one in kept), ""]
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(one.name for one in BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="small and few; nothing is written to docs")
    parser.add_argument("--data", default="")
    parser.add_argument("--raw", default="")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--scratch", default="", help="for what a long benchmark goes on from when run again")
    parser.add_argument("--page-only", action="store_true", help="list the pages that are kept, and run nothing")
    given = parser.parse_args()
    if unknown := set(given.names).difference(*(one.names for one in BENCHMARKS)):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}")
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        scratch = given.scratch or temporary
        out = given.out or (Path(temporary) / "out" if given.quick else KEPT)
        out.mkdir(parents=True, exist_ok=True)
        folders = {"data": given.data, "raw": given.raw, "scratch": scratch}
        for one in [] if given.page_only else BENCHMARKS:
            asked = not given.names or bool(one.names & set(given.names))
            lacking = [name for name, folder in folders.items() if not folder and one.needs(name)]
            if asked and not lacking and not run(one, folders, out, quick=given.quick):
                failed.append(one.name)
        if given.quick:
            print("\n".join(kept.read_text() for kept in sorted(out.glob("*.md"))))
        elif out == KEPT:
            PAGE.write_text(page(out))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
