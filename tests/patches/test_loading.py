import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import gc, sys
collections = []
import fairseq_ext
gc.callbacks.append(lambda phase, _: collections.append(phase))
import torch
import fairseq
gc.callbacks.clear()
from fairseq.criterions import sentence_prediction
from fairseq.tasks import audio_classification
try:
    torch._check(2 == 3, lambda: "two is not three")
except RuntimeError as error:
    print(error)
print(sorted({"sklearn", "scipy"} & set(sys.modules)), gc.isenabled(), collections.count("start"))
import numpy as np
gold, found = np.array([0, 1, 1, 0, 1]), np.array([0, 1, 0, 1, 1])
print(sentence_prediction.acc_and_f1(found, gold)["f1"], sentence_prediction.pearson_and_spearman(found, gold)["corr"])
print([list(each) for each in audio_classification.sklearn_metrics.roc_curve(gold, found)])
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, roc_curve
print(f1_score(gold, found), (pearsonr(found, gold)[0] + spearmanr(found, gold)[0]) / 2)
print([list(each) for each in roc_curve(gold, found)])
"""


@pytest.mark.slow
@pytest.mark.usefixtures("true_processes")
def test_fairseq_loads_without_them_and_counts_with_them() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    condition, loaded, correlations, curve, *expected = done.stdout.splitlines()
    assert condition == "two is not three"  # without a compiler
    assert re.fullmatch(r"\[\] True \d{1,2}", loaded)  # fewer than a hundred collections
    assert [correlations, curve] == expected
