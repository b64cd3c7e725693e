from __future__ import annotations

import numpy as np

from calcli.methods import calibrator, catalog
from tests.support.cases import ordinary


def test_it_gives_what_the_score_says() -> None:
    for classes in (2, 3):
        batch = ordinary(100, classes)
        prob = calibrator.fit(catalog.find("identity"), batch, {}).predict(batch)
        if classes == 2:
            np.testing.assert_allclose(prob, 1 / (1 + np.exp(-batch.score)), rtol=1e-15)
        else:
            raised = np.exp(batch.score)
            np.testing.assert_allclose(prob, raised / raised.sum(axis=1, keepdims=True), rtol=1e-12)
