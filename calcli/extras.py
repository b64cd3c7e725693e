"""Packages that come with an extra of the installation, and the error if one is not installed.

Code that needs a package asks for it here before any rows are read; `calcli.methods.spec` knows which methods do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from calcli.errors import MissingExtraError
from calcli.version import DISTRIBUTION

EXTRAS: Mapping[str, str] = {
    "catboost": "trees",
    "pandas": "trees",
    "shap": "trees",
    "torch": "graphs",
    "torch_geometric": "graphs",
    "matplotlib": "plots",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "pyspark": "spark",
    "obstore": "stores",
    "boto3": "stores",
    "adbc_driver_postgresql": "databases",
    "adbc_driver_sqlite": "databases",
    "duckdb": "databases",
    "fastexcel": "excel",
    "deltalake": "lakes",
    "pyiceberg": "lakes",
}
"""The extra in ``pyproject.toml`` of each package, which is named as it is imported."""


def installed(package: str) -> bool:
    """Whether a package can be imported; it is not imported to find out."""
    return find_spec(package) is not None


def require(package: str, purpose: str) -> None:
    """Raise a `MissingExtraError` if a package is not installed; `purpose` needs it."""
    if not installed(package):
        raise MissingExtraError(
            f"{purpose} needs the package {package!r}, which is not installed", hint=f"try: {install_line([package])}"
        )


def install_line(packages: Iterable[str]) -> str:
    """The command that installs the extras with these packages."""
    return f"pip install '{DISTRIBUTION}[{','.join(sorted({EXTRAS[package] for package in packages}))}]'"
