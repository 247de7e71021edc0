"""Where things are in a torch model: found by its structure, never by a list of model names.

The decoder (or encoder) blocks are the heaviest ``ModuleList`` of composite modules. Inside a block, projections are
recognised by the short names that attention and MLP modules give them; what those tables cannot know (which norm feeds
the attention, which the MLP) is seen at run time, by which norm's output arrives there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .errors import DumpError


@dataclass(frozen=True)
class Blocks:
    """The stack of blocks: its path in the model, the modules, and the paths of other stacks that could have been meant."""

    path: str
    modules: list[Any]
    others: tuple[str, ...] = ()


def _is_stack(module: Any) -> bool:
    if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) or len(module) == 0:
        return False
    return all(len(list(m.children())) > 0 for m in module)


def _weight(module: Any) -> int:
    return sum(int(p.numel()) for p in module.parameters())


def find_blocks(model: Any, path: str | None = None) -> Blocks:
    """Return the stack of blocks of ``model``.

    Chosen is the list of composite modules with the most parameters: nested lists (experts) are lighter than the list
    that holds them, and a vision tower is lighter than the language model it feeds. ``path`` overrides the choice. Raises
    :class:`DumpError` where there is no such list, or ``path`` names something else.
    """
    modules = dict(model.named_modules())
    if path is not None:
        found = modules.get(path)
        if found is None or not isinstance(found, (torch.nn.ModuleList, torch.nn.Sequential)) or len(found) == 0:
            raise DumpError(f"finding the blocks of {type(model).__name__}: blocks={path!r} is not a ModuleList of the model")
        return Blocks(path, list(found))
    stacks: dict[str, Any] = {}
    for name, module in modules.items():
        nested = any(name.startswith(outer + ".") for outer in stacks)
        if not nested and _is_stack(module):
            stacks[name] = module
    if not stacks:
        raise DumpError(
            f"finding the blocks of {type(model).__name__}: no ModuleList of composite modules; name it with blocks="
        )
    ranked = sorted(stacks, key=lambda n: (-_weight(stacks[n]), n))
    best = ranked[0]
    return Blocks(best, list(stacks[best]), tuple(ranked[1:]))


def is_norm(module: Any) -> bool:
    """Report whether a module is a normalisation: its class says so, whatever library it is from."""
    return "norm" in type(module).__name__.lower()


def norms_outside(model: Any, blocks: Blocks) -> dict[str, Any]:
    """Return norms that are in no block and in no other stack, by path: one of them may be the final norm."""
    inside = (blocks.path, *blocks.others)
    return {
        name: m
        for name, m in model.named_modules()
        if is_norm(m) and not any(name == p or name.startswith(p + ".") for p in inside)
    }


_ATTENTION = re.compile(r"attn|attention", re.I)
_CROSS = re.compile(r"cross|enc_?dec|encoder_attn", re.I)
_EXPERT = re.compile(r"expert", re.I)


@dataclass(frozen=True)
class Leaf:
    """A tap that is the output (or with ``side="in"`` the input) of a module with one of these last names."""

    tap: str
    names: frozenset[str]
    where: str  # "attention" or "mlp"
    side: str = "out"


def _leaf(tap: str, names: str, where: str, side: str = "out") -> Leaf:
    return Leaf(tap, frozenset(names.split()), where, side)


# Last names of projections, over the libraries in use. An exact table: a name that is absent here is simply not tapped.
_OUT = "o_proj out_proj c_proj dense wo o out_lin to_out o"
_DOWN = "down_proj w2 c_proj fc2 fc_out dense_4h_to_h wo lin2 output.dense"
LEAVES: tuple[Leaf, ...] = (
    _leaf("q", "q_proj query q_lin wq q to_q query_proj q_b_proj", "attention"),
    _leaf("k", "k_proj key k_lin wk k to_k key_proj", "attention"),
    _leaf("v", "v_proj value v_lin wv v to_v value_proj", "attention"),
    _leaf("qkv", "c_attn qkv_proj qkv query_key_value Wqkv W_pack in_proj", "attention"),
    _leaf("q_norm", "q_norm q_layernorm query_norm q_ln query_layernorm", "attention"),
    _leaf("k_norm", "k_norm k_layernorm key_norm k_ln key_layernorm", "attention"),
    _leaf("attn_ctx", _OUT, "attention", "in"),
    _leaf("attn_out", _OUT, "attention"),
    _leaf("mlp_gate", "gate_proj w1 wi_0", "mlp"),
    _leaf("mlp_up", "up_proj w3 wi_1 c_fc fc1 fc_in dense_h_to_4h wi lin1 intermediate.dense", "mlp"),
    _leaf("gate_up", "gate_up_proj", "mlp"),
    _leaf("mlp_act", _DOWN, "mlp", "in"),
    _leaf("mlp_out", _DOWN, "mlp"),
)

_ROUTERS = frozenset(["gate", "router"])
_SHARED = frozenset(["shared_expert", "shared_experts", "shared_mlp"])


@dataclass
class BlockMap:
    """The modules of one block by the tap they give: ``outputs`` and ``inputs`` map a tap to (path, module)."""

    outputs: dict[str, tuple[str, Any]] = field(default_factory=dict)
    inputs: dict[str, tuple[str, Any]] = field(default_factory=dict)
    norms: dict[str, Any] = field(default_factory=dict)
    attention: Any = None
    mlp: Any = None
    moe: dict[str, tuple[str, Any]] = field(default_factory=dict)


def map_block(block: Any, overrides: Mapping[str, str] | None = None) -> BlockMap:
    """Return where the standard sub-taps of ``block`` are.

    ``overrides`` maps a tap to a path inside the block, with ``:in`` for the module's input: ``{"attn_out":
    "mixer.out_proj", "conv_out": "mixer.conv1d", "ssm_out": "mixer.out_proj:in"}``; an empty path switches a tap off.
    Raises :class:`DumpError` for a path that the block lacks.
    """
    out = BlockMap()
    modules = {name: m for name, m in block.named_modules() if name}
    _map_moe(out, modules)
    moe_root = _parent(out.moe["experts"][0]) if "experts" in out.moe else None
    for path, m in modules.items():
        if is_norm(m) and not _inside_attention(path):
            out.norms[path] = m
        for leaf in LEAVES:
            if _matches(leaf, path) and not (leaf.where == "mlp" and moe_root is not None):
                (out.inputs if leaf.side == "in" else out.outputs).setdefault(leaf.tap, (path, m))
    if "mlp_gate" in out.outputs and "mlp_up" not in out.outputs and "gate_up" not in out.outputs:
        # A lone "w1" is the first of two plain layers: an up projection.
        out.outputs["mlp_up"] = out.outputs.pop("mlp_gate")
    if moe_root is not None and moe_root in modules:
        out.outputs["mlp_out"] = (moe_root, modules[moe_root])
    out.attention = modules.get(_parent((out.outputs.get("q") or out.outputs.get("qkv") or ("", None))[0]))
    for tap, where in (overrides or {}).items():
        _override(out, modules, type(block).__name__, tap, where)
    return out


def _override(out: BlockMap, modules: Mapping[str, Any], block: str, tap: str, where: str) -> None:
    out.outputs.pop(tap, None)
    out.inputs.pop(tap, None)
    if not where:
        return
    path, _, side = where.partition(":")
    if path not in modules or side not in ("", "in", "out"):
        raise DumpError(f"placing tap {tap!r}: {where!r} is not a module of {block} (with :in or :out)")
    (out.inputs if side == "in" else out.outputs)[tap] = (path, modules[path])


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _inside_attention(path: str) -> bool:
    """Report whether a norm works on heads inside the attention (q_norm), rather than on the residual stream."""
    last = path.rpartition(".")[2]
    return bool(_ATTENTION.search(_parent(path))) and any(
        last in leaf.names for leaf in LEAVES if leaf.tap in ("q_norm", "k_norm")
    )


def _matches(leaf: Leaf, path: str) -> bool:
    parts = path.split(".")
    last_two = ".".join(parts[-2:])
    named = parts[-1] in leaf.names or last_two in leaf.names
    context = ".".join(parts[:-1])
    if not named or _CROSS.search(context) or _EXPERT.search(context):
        return False
    return (_ATTENTION.search(context) is not None) == (leaf.where == "attention")


def _map_moe(out: BlockMap, modules: Mapping[str, Any]) -> None:
    for path, m in modules.items():
        last, parent = path.rpartition(".")[2], _parent(path)
        if last == "experts" and parent:
            out.moe.setdefault("experts", (path, m))
    if "experts" not in out.moe:
        return
    root = _parent(out.moe["experts"][0])
    for path, m in modules.items():
        last = path.rpartition(".")[2]
        if _parent(path) != root:
            continue
        if last in _ROUTERS:
            out.moe.setdefault("router", (path, m))
        if last in _SHARED:
            out.moe.setdefault("shared", (path, m))
