"""Write tensor dumps that ``parity`` compares, from any engine.

The core needs numpy only. Each engine has one module, imported by its name: ``parity_dump.torch``,
``parity_dump.llama_cpp``, ``parity_dump.onnx``, ``parity_dump.jax_tap``, ``parity_dump.max``, ``parity_dump.vllm``,
``parity_dump.sglang``.
"""

from .core import DumpWriter, RankInfo, rank_dir, recording, register_array_type, step_dir, tap, to_numpy
from .errors import DiskFullError, DumpError, DumpExistsError, DumpTooLargeError, DumpWarning
from .version import VERSION as __version__

__all__ = [
    "DiskFullError",
    "DumpError",
    "DumpExistsError",
    "DumpTooLargeError",
    "DumpWarning",
    "DumpWriter",
    "RankInfo",
    "__version__",
    "rank_dir",
    "recording",
    "register_array_type",
    "step_dir",
    "tap",
    "to_numpy",
]
