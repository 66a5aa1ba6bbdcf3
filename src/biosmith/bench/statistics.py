"""Mean, standard deviation and interval of a score over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# 97.5 % quantiles of Student's t by degrees of freedom; beyond the table the normal's.
_T = (
    *(
        12.706,
        4.303,
        3.182,
        2.776,
        2.571,
        2.447,
        2.365,
        2.306,
        2.262,
        2.228,
        2.201,
        2.179,
        2.160,
        2.145,
        2.131,
    ),
    *(
        2.120,
        2.110,
        2.101,
        2.093,
        2.086,
        2.080,
        2.074,
        2.069,
        2.064,
        2.060,
        2.056,
        2.052,
        2.048,
        2.045,
        2.042,
    ),
)


@dataclass(frozen=True)
class Summary:
    """A score over seeds.

    Attributes:
        values: the score of each seed.
        mean, sd: their mean and sample standard deviation; sd is None of a single seed.
        ci95: half the width of the 95 % interval of the mean (Student's t), None of a single seed.
    """

    values: tuple[float, ...]
    mean: float
    sd: float | None
    ci95: float | None

    @staticmethod
    def of(values: Sequence[float]) -> Summary:
        """Summarise the scores of at least one seed."""
        n = len(values)
        mean = statistics.fmean(values)
        if n < 2:
            return Summary(tuple(values), mean, None, None)
        sd = statistics.stdev(values)
        t = _T[n - 2] if n - 2 < len(_T) else 1.96
        return Summary(tuple(values), mean, sd, t * sd / math.sqrt(n))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"mean": self.mean, "sd": self.sd, "ci95": self.ci95, "seeds": list(self.values)}

    def shown(self) -> str:
        """In percent: "87.82 ± 0.31"."""
        spread = "" if self.sd is None else f" ± {100 * self.sd:.2f}"
        return f"{100 * self.mean:.2f}{spread}"
