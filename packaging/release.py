"""Prepare a release in a clean tree: ``python packaging/release.py VERSION``, or ``just release VERSION``.

Sets the version, cuts the changelog, writes anew what names the version, checks the built package, commits, and tags.
The tag is pushed by hand; the workflow of releases publishes what it points to.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNRELEASED = "## Unreleased\n"


def git(*words: str) -> str:
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()


def problem(version: str) -> str | None:
    """Why nothing can be released; None if it can."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return f"{version} is no version such as 1.2.3"
    if git("status", "--porcelain"):
        return "the tree has changes that are not committed"
    if git("tag", "--list", f"v{version}"):
        return f"v{version} is released already"
    if UNRELEASED not in (ROOT / "CHANGELOG.md").read_text():
        return "the changelog has nothing under Unreleased"
    if nameless := git("grep", "-l", "OWNER/calcli", "--", ".", ":!packaging"):
        return f"put the project's owner in place of OWNER in {', '.join(nameless.split())}"
    return None


def replaced(path: Path, pattern: str, by: str) -> None:
    """Replace a pattern that must be there."""
    text, count = re.subn(pattern, by, path.read_text())
    if count == 0:
        raise SystemExit(f"{path} has no {pattern}")
    path.write_text(text)


def main(version: str) -> None:
    if why := problem(version):
        raise SystemExit(f"release: {why}")
    replaced(ROOT / "calcli/version.py", r'VERSION = ".+"', f'VERSION = "{version}"')
    replaced(ROOT / "CITATION.cff", r"(?m)^version: .+$", f"version: {version}")
    replaced(ROOT / "docs/container.md", r"calcli@v[\d.]+", f"calcli@v{version}")
    replaced(ROOT / "CHANGELOG.md", UNRELEASED, f"{UNRELEASED}\n## {version} ({datetime.now(UTC):%Y-%m-%d})\n")
    subprocess.run([sys.executable, "docs/generate.py"], cwd=ROOT, check=True)
    subprocess.run(["just", "release-check"], cwd=ROOT, check=True)
    subprocess.run(["git", "commit", "--quiet", "--all", "--message", f"calcli {version}"], cwd=ROOT, check=True)
    subprocess.run(["git", "tag", "--annotate", f"v{version}", "--message", f"calcli {version}"], cwd=ROOT, check=True)
    print(f"git push --follow-tags publishes calcli {version}")


if __name__ == "__main__":
    main(*sys.argv[1:])
