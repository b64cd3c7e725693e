"""The claims of the papers, and where they hold: a table of what the other pages have found.

``python benchmarks/papers/claims.py [FOLDER] [--quick]`` reads the pages of the other scripts in FOLDER (docs/results)
and writes Markdown. They state each verdict by `claim`, so that no word of the table is written by hand, but for the
claims that nothing here can test.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "results"
PAPERS = {
    "MBCT (Huang et al. 2022)": ("mbct-clicks", "mbct", "mbct-simulation"),
    "RECAL (Wang et al. 2023)": ("recal-relations", "recal"),
    "CCL (Lavi, Shapira and Rappoport)": ("ccl-clusters", "ccl"),
    "Heterogeneous calibration (Durfee et al. 2022)": ("heterogeneous-network", "heterogeneous"),
    "Uncertainty of gradient boosting (Malinin et al. 2021)": ("uncertainty",),
}
"""The pages of each paper; the first is on data of the paper's own kind."""
UNTESTED = {
    "MBCT (Huang et al. 2022)": {
        "more clicks and revenue in an online test of 15 days": "it needs a running advertising system"
    },
    "RECAL (Wang et al. 2023)": {
        "ECE lower by 45 to 74 % on DBLP and SLAP": "no package that we use carries these two graphs"
    },
    "CCL (Lavi, Shapira and Rappoport)": {
        "the rankings on WiDS, LOS and 24H": "no package that we use carries these tables of patients"
    },
}
CLAIM = re.compile(r"^\*\*The paper: (?P<said>.+)\.\*\* (?P<word>Holds|Fails) (?P<where>.+)\.$", re.MULTILINE)
MOST_NAMED = 4
"""So many places are named; more are counted."""


def claim(said: str, held: Mapping[str, bool], what: str) -> None:
    """State a claim of the paper, and whether it holds or fails in most of the places; `what` says what they are."""
    right, wrong = ([where for where, holds in held.items() if holds == side] for side in (True, False))
    word, most, fewer, other = (
        ("Holds", right, wrong, "fails") if len(right) > len(wrong) else ("Fails", wrong, right, "holds")
    )
    named = f"; it {other} in {', '.join(fewer)}" if 0 < len(fewer) <= MOST_NAMED else ""
    print(f"**The paper: {said}.** {word} in {len(most)} of {len(held)} {what}{named}.\n", flush=True)


@dataclass(frozen=True)
class Verdict:
    """What a page says about a claim."""

    page: str
    word: str
    where: str

    def __str__(self) -> str:
        return f"**{self.word}** {self.where} ([numbers]({self.page}.md))"


def verdicts(folder: Path, pages: Sequence[str]) -> dict[str, list[Verdict]]:
    """By claim, in the order in which the pages state them."""
    found: dict[str, list[Verdict]] = {}
    for page in pages:
        path = folder / f"{page}.md"
        for one in CLAIM.finditer(path.read_text()) if path.exists() else ():
            found.setdefault(one["said"], []).append(Verdict(page, one["word"], one["where"]))
    return found


def lines(folder: Path) -> Iterator[str]:
    for paper, pages in PAPERS.items():
        yield f"| **{paper}** | |"
        for said, found in verdicts(folder, pages).items():
            yield f"| {said} | {'<br>'.join(map(str, found))} |"
        for said, reason in UNTESTED.get(paper, {}).items():
            yield f"| {said} | **Not comparable**: {reason} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--quick", action="store_true", help="the same")
    given = parser.parse_args()
    print("| The paper says | Here |\n| --- | --- |")
    print("\n".join(lines(given.folder)))


if __name__ == "__main__":
    main()
