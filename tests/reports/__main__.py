"""Train the classifier of `read/logs/reports.py` with learned.tsv, and write its weights (`make reports`)."""

from __future__ import annotations

from base64 import b85encode
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from clienthealth.modes import modes
from clienthealth.read.logs import reports
from tests.reports.sentences import NONE, read

#: The inverse strength of the regularisation.
C = 50.0
WIDTH = 110


def main() -> None:
    """Write reports.toml. Weights are relative to the weights of the label NONE, and rounded to 8 bits."""
    rows = read("learned")
    found = [reports.features(text) for _, text in rows]
    columns = [bucket for buckets, _ in found for bucket in buckets]
    begins = np.cumsum([0, *(len(buckets) for buckets, _ in found)])
    values = np.concatenate([each for _, each in found])
    # Most known issues have few examples, so each of these examples has three times the weight of any other example.
    share = {label: 1 if label in modes() or label == NONE else 3 for label, _ in rows}
    model = LogisticRegression(C=C, max_iter=2000, class_weight=share)
    model.fit(csr_matrix((values, columns, begins), (len(rows), reports.BUCKETS)), [label for label, _ in rows])
    labels = list(model.classes_)
    none = labels.index(NONE)
    weights = model.coef_ - model.coef_[none]
    scale = float(np.abs(weights).max() / 127)
    lines = [
        "# Written by `make reports`. `weights`: one signed byte per bucket, in base 85. To get a bucket's",
        "# weight, multiply the bucket's byte by `scale`. `failing`: true for a failure mode.",
        f"scale = {scale:.8f}",
    ]
    for number, label in enumerate(labels):
        if number != none:
            text = b85encode(np.rint(weights[number] / scale).astype(np.int8).tobytes()).decode()
            pieces = [f"  '{text[at : at + WIDTH]}'," for at in range(0, len(text), WIDTH)]
            bias = model.intercept_[number] - model.intercept_[none]
            failing = f"failing = {str(label in modes()).lower()}"
            lines += ["", f"[labels.{label}]", f"bias = {bias:.6f}", failing, "weights = [", *pieces, "]"]
    Path(reports.__file__).with_suffix(".toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
