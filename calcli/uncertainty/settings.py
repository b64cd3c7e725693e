"""How an ensemble is trained, apart from its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from calcli.errors import UsageError

Kind: TypeAlias = Literal["sglb", "sgb", "virtual"]
Task: TypeAlias = Literal["binary", "multiclass", "regression"]

KINDS: tuple[Kind, ...] = ("sglb", "sgb", "virtual")

LOSSES: dict[Task, str] = {"binary": "Logloss", "multiclass": "MultiClass", "regression": "RMSEWithUncertainty"}
"""What CatBoost minimises: in each case the negative log-likelihood."""

RATES = (0.001, 0.01, 0.1)
DEPTHS = (3, 4, 5, 6)
"""The grid of appendix A.2. The number of trees is not tuned: virtual members are cut from late ones."""

DEEPEST = 16
"""CatBoost has no deeper trees."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How an ensemble is trained.

    Attributes
    ----------
    kind
        ``sglb``: models trained by stochastic gradient Langevin boosting, which samples from the posterior.
        ``sgb``: models each tree of which sees half of the rows. ``virtual``: one SGLB model, of which every so many
        trees of the second half are a member.
    members
        M, how many there are.
    trees, depth
        Of each model.
    learning_rate
        None leaves the choice to CatBoost.
    """

    kind: Kind = "sglb"
    members: int = 10
    trees: int = 1000
    depth: int = 6
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        if self.members < 2:
            raise UsageError(f"--members {self.members}: an ensemble needs two members or more", hint="try: 10")
        if self.learning_rate is not None and not 0.0 < self.learning_rate <= 1.0:
            raise UsageError(f"--learning-rate {self.learning_rate:g} is not above 0 and at most 1", hint="try: 0.1")
        if not 1 <= self.depth <= DEEPEST:
            raise UsageError(f"--depth {self.depth} is not between 1 and {DEEPEST}")
        if self.kind == "virtual":
            check_trees(self.trees, self.members)

    @property
    def models(self) -> int:
        """How many models are trained."""
        return 1 if self.kind == "virtual" else self.members

    def params(self, task: Task, classes: int) -> dict[str, Any]:
        """CatBoost's parameters.

        Posterior sampling sets the diffusion temperature to N and the shrinkage to 1/(2N), as in equation 14.
        """
        params: dict[str, Any] = {"loss_function": LOSSES[task], "iterations": self.trees, "depth": self.depth}
        if task == "multiclass":
            params["classes_count"] = classes
        if self.learning_rate is not None:
            params["learning_rate"] = self.learning_rate
        if self.kind == "sgb":
            return params | {"bootstrap_type": "Bernoulli", "subsample": 0.5}
        return params | {"posterior_sampling": True, "bootstrap_type": "No"}


def check_trees(trees: int, members: int) -> None:
    """Refuse a virtual ensemble of more members than half of the trees."""
    if trees < 2 * members:
        raise UsageError(
            f"{trees} trees are too few for a virtual ensemble of {members} members: "
            "its members are cut from the second half of the trees",
            hint=f"try: --members {max(trees // 2, 2)}, or {2 * members} trees or more",
        )
