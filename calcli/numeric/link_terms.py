"""The links of `calcli.numeric.links` as formulas."""

from __future__ import annotations

from calcli import expressions as terms
from calcli.expressions import Term, Terms
from calcli.numeric.links import CLIP, FAR, LEAST, LEAST_REST


def logits(prob: Terms) -> Terms:
    """Log-odds, or a log-probability for each class."""
    logs = tuple(terms.ln(terms.clip(one, LEAST, 1.0)) for one in prob)
    return logs if len(prob) > 1 else (logs[0] - terms.ln(terms.clip(1.0 - prob[0], LEAST_REST, 1.0)),)


def drawn_in(z: Term) -> Term:
    """Log-odds that are drawn in far out."""
    above, below = (terms.ln(terms.greatest(way + (1.0 - FAR), terms.Number(1.0))) for way in (z, -1.0 * z))
    return terms.clip(z, -FAR, FAR) + above - below


def scores(prob: Terms) -> Terms:
    """The scores that stand for probabilities.

    Of two classes the logarithms of p and of 1 - p are drawn in each by itself, which is shorter: where one of them is,
    the other is 0 to twelve digits.
    """

    def log(p: Term, least: float) -> Term:
        far = terms.ln(
            terms.greatest((1.0 - FAR) - terms.ln(terms.greatest(p, terms.Number(least))), terms.Number(1.0))
        )
        return terms.ln(terms.clip(p, CLIP, 1.0)) - far

    if len(prob) == 1:
        return (log(prob[0], LEAST) - log(1.0 - prob[0], LEAST_REST),)
    return tuple(log(one, LEAST) for one in prob)


def probabilities(score: Terms) -> Terms:
    """The probabilities of a score."""
    return (terms.sigmoid(score[0]),) if len(score) == 1 else terms.softmax(score)
