"""A torch tensor as a numpy array: a private copy, its bits kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .dtypes import RAW_FLOATS, normalize
from .errors import DumpError
from .torch_ranks import local


def to_numpy(x: Any) -> tuple[npt.NDArray[Any], str]:
    """Return a private copy of a tensor's values on the CPU, and its logical dtype.

    bfloat16 comes as uint16 and 8-bit floats as uint8, bit for bit. Quantised and sparse tensors are made dense floats; of
    a DTensor the local part is taken. Raises :class:`DumpError` for a tensor without values (meta, fake, being traced).
    """
    t, _ = local(x.detach())
    if t.device.type == "meta" or type(t).__name__ in ("FakeTensor", "FunctionalTensor"):
        raise DumpError(f"reading a {type(t).__name__} on device {t.device}: it has a shape but no values")
    if t.is_quantized:
        t = t.dequantize()
    if t.layout != torch.strided:
        t = t.to_dense()
    dtype = str(t.dtype).removeprefix("torch.")
    cpu = t.to("cpu", copy=True).resolve_conj().resolve_neg().contiguous()
    if dtype == "bfloat16":
        return cpu.view(torch.int16).numpy().view(np.uint16), dtype
    if dtype in RAW_FLOATS:
        return cpu.view(torch.uint8).numpy(), dtype
    return normalize(cpu.numpy(), None)
