"""Makes small_floats.npz: the float32 value of every code of each 8-bit float, as ml_dtypes reads them.

    usage: python make_small_floats.py        (needs ml_dtypes; the tests need only the result)
"""

from pathlib import Path

import ml_dtypes
import numpy as np

NAMES = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")

codes = np.arange(256, dtype=np.uint8)
with np.errstate(all="ignore"):
    values = {n: codes.view(getattr(ml_dtypes, n)).astype(np.float32) for n in NAMES}
np.savez_compressed(Path(__file__).with_name("small_floats.npz"), **values)
