"""The spec of the mixture of other methods."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from calcli.methods.catalogs.clusters import SPECS as CLUSTERS
from calcli.methods.catalogs.graphs import SPECS as GRAPHS
from calcli.methods.catalogs.trees import SPECS as TREES
from calcli.methods.spec import MethodSpec, integer, text

if TYPE_CHECKING:
    from calcli.methods.base import Params


def _of_members(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    """What the methods need that are named; of ``auto`` those are taken that need nothing which is not installed."""
    names = {name.strip() for name in str(params["members"]).split(",")}
    members = [spec for spec in (*TREES, *CLUSTERS, *GRAPHS) if spec.name in names]
    return tuple(package for member in members for package in member.needs(member.resolve(), features, ()))


SPECS = (
    MethodSpec(
        name="pool",
        family="mixtures",
        target="calcli.methods.pool",
        summary="a mixture of several calibrators, weighted by held-out likelihood",
        reference="Wolpert 1992; Dempster et al. 1977",
        simplicity=30,
        multiclass="native",
        needs_features=True,
        content_without=True,
        needs=_of_members,
        closed_form=True,
        explains=True,
        params=(
            text("members", "auto", "methods, separated by commas; auto is those that --method auto compares"),
            text("weights", "auto", "a weight for each member, separated by commas; found on held-out rows if auto"),
            integer("most", 5, "the maximum number of members; those with the largest weights are kept", 1, 50),
        ),
    ),
)
