"""Audit Python sources of distributed training for known ways to hang or to fork.

One file, standard library only, Python 3.9 and later. The audited code is parsed
with :mod:`ast`; nothing of it is imported or run. ``parity triage --source DIR``
carries a copy of this file and runs it with the user's own ``python3 -I``, so
that today's syntax is read by today's parser.

What it looks for is in :data:`RULES`. Conditions are told apart as *rank* (true
on some ranks only, by construction), *data* (each rank evaluates it on its own
tensors) and uniform (the same everywhere; anything not known to be one of the
others). Calls are followed by name through the audited files.

    python3 source_audit.py DIR...     # JSON on stdout
    python3 source_audit.py --rules    # the table of rules as JSON
"""

# ruff: noqa: B905, RUF005, SIM905, UP007, UP031
# (runs on Python 3.9, which has no zip(strict=) and no X | Y; tables of words are split strings.)

from __future__ import annotations

import argparse
import ast
import json
import os
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Union

SCHEMA = "parity.source-audit/1"

# Limits. What is left out is listed in the output, never dropped silently.
MAX_BYTES = 4 << 20
MAX_FILES = 20_000
MAX_FINDINGS = 2_000


class Rule(NamedTuple):
    """One thing the audit looks for; ``pattern`` is an id of the catalogue."""

    id: str
    pattern: str
    severity: str  # "error": wrong by construction; "warning": wrong where ranks differ; "hint": look at it
    title: str


RULES: tuple[Rule, ...] = (
    Rule("collective-under-rank", "hang.asymmetric_collective", "error", "a collective that only some ranks call"),
    Rule("exit-before-collective", "hang.early_exit", "error", "some ranks leave before a collective"),
    Rule(
        "collective-under-data",
        "hang.divergent_condition",
        "warning",
        "a collective under a condition that each rank evaluates on its own data",
    ),
    Rule("exit-on-data", "hang.divergent_condition", "warning", "a rank leaves before a collective because of its own data"),
    Rule(
        "collective-in-except",
        "hang.divergent_condition",
        "warning",
        "a collective in an exception handler, which only the failing rank enters",
    ),
    Rule("uneven-loop", "hang.uneven_batches", "hint", "a collective in a loop whose length is this rank's own"),
    Rule("new-group-under-rank", "hang.new_group", "error", "a process group that not every rank creates"),
    Rule("gather-under-rank", "hang.checkpoint_gather", "error", "a state is gathered on some ranks only"),
    Rule("gather-in-loop", "hang.checkpoint_save", "hint", "a full state is gathered inside the training loop"),
    Rule("sharded-model-under-rank", "hang.asymmetric_collective", "error", "a sharded model runs on some ranks only"),
    Rule("fsdp-without-group", "hang.fsdp_group", "warning", "FSDP takes the world although the project makes several groups"),
    Rule("rng-under-rank", "train.rng_fork", "warning", "some ranks draw random numbers and others do not"),
    Rule(
        "noise-without-generator", "video.half_noise", "warning", "noise without a shared generator in sequence-parallel code"
    ),
    Rule("ema-from-shard", "video.ema_shard", "warning", "EMA weights are saved without being gathered"),
    Rule("shard-saved-as-whole", "parallel.shard_missing", "warning", "one rank saves its own shard as if it were the whole"),
)
_RULE = {rule.id: rule for rule in RULES}

# ---------------------------------------------------------------------------
# Names: what is a collective, a rank, a draw.

_C10D = frozenset(
    """all_reduce all_reduce_coalesced all_gather all_gather_coalesced all_gather_into_tensor all_gather_object
    all_gather_tensor all_gather_single _all_gather_base reduce_scatter reduce_scatter_tensor reduce_scatter_single
    _reduce_scatter_base all_to_all all_to_all_single broadcast broadcast_coalesced broadcast_object_list reduce
    reduce_coalesced gather gather_object scatter scatter_object_list barrier monitored_barrier alltoall
    alltoall_single""".split()
)
# Of these the name alone says what it is, whatever it is called on.
_DISTINCT = frozenset(
    """all_reduce all_reduce_coalesced all_gather_into_tensor all_gather_object all_gather_tensor _all_gather_base
    reduce_scatter reduce_scatter_tensor _reduce_scatter_base all_to_all_single broadcast_object_list
    scatter_object_list monitored_barrier""".split()
)
# Wrappers of other packages: all_reduce_mean, all_gather_with_grad, ...
_DISTINCT_PREFIXES = ("all_reduce_", "all_gather_", "reduce_scatter_", "all_to_all_", "allreduce_", "allgather_")
_DIST_MODULES = (
    "torch.distributed", "deepspeed.comm", "paddle.distributed", "torch.distributed.nn", "torch.distributed.nn.functional",
    "torch.distributed._functional_collectives", "torch.distributed.distributed_c10d",
)  # fmt: skip
_DIST_RECEIVERS = frozenset("dist distributed torch_dist tdist c10d funcol".split())
# receiver's last name (lower case, by its end) -> methods that all ranks must call.
_FRAMEWORKS: dict[str, frozenset[str]] = {
    "accelerator": frozenset("wait_for_everyone gather gather_for_metrics reduce pad_across_processes".split()),
    "fabric": frozenset("barrier all_reduce all_gather broadcast".split()),
    "strategy": frozenset("barrier all_gather reduce broadcast reduce_boolean_decision".split()),
    "hvd": frozenset(
        """allreduce allreduce_ allgather broadcast broadcast_ broadcast_parameters broadcast_object broadcast_optimizer_state
        barrier alltoall reducescatter join""".split()
    ),
    "xm": frozenset(
        """all_reduce all_gather all_to_all reduce_scatter rendezvous mesh_reduce reduce_gradients optimizer_step""".split()
    ),
    "multihost_utils": frozenset("sync_global_devices broadcast_one_to_all process_allgather".split()),
    "comm": frozenset(
        """Barrier Bcast bcast Allreduce allreduce Allgather allgather Gather Scatter Reduce Alltoall alltoall barrier
        all_reduce all_gather broadcast""".split()
    ),
}
# Collectives under sharding only: with plain replicas they are harmless.
_SOFT = frozenset({("accelerator", "save_state"), ("accelerator", "get_state_dict")})
_DCP = frozenset("save load async_save save_state_dict load_state_dict".split())
_DCP_STATE = frozenset(
    """get_state_dict get_model_state_dict get_optimizer_state_dict set_state_dict set_model_state_dict
    set_optimizer_state_dict""".split()
)
# Methods that gather a sharded state, on any receiver.
_GATHER_METHODS = frozenset(
    """full_tensor summon_full_params full_optim_state_dict optim_state_dict save_16bit_model save_fp16_model
    _zero3_consolidated_16bit_state_dict""".split()
)
_WRAPPERS = frozenset("FSDP FullyShardedDataParallel fully_shard".split())
_SHARDED_MARKS = frozenset("FSDP FullyShardedDataParallel fully_shard".split())
_SYNC_MARKS = frozenset("DistributedDataParallel DDP FSDP FullyShardedDataParallel fully_shard deepspeed".split())

_RANK_NAMES = frozenset(
    """local_rank global_rank world_rank node_rank ddp_rank ddp_local_rank my_rank proc_rank process_rank rank_id
    process_index local_process_index rank""".split()
)
_MAIN_NAMES = frozenset(
    """is_main_process is_local_main_process is_world_process_zero is_local_process_zero is_global_zero is_master
    is_master_process master_process main_process is_main is_rank_zero is_rank0 is_rank_0 rank_zero is_zero_rank
    is_leader is_chief is_primary is_master_ordinal is_main_rank is_root is_first_rank""".split()
)
_RANK_DECORATORS = frozenset(
    """rank_zero_only rank0_only rank_zero master_only main_process_only only_on_main on_main_process on_local_main_process
    only_main_process main_only""".split()
)
_AXES = (
    "tp",
    "tensor",
    "dp",
    "data",
    "sp",
    "sequence",
    "cp",
    "context",
    "pp",
    "pipeline",
    "pipe",
    "stage",
    "ep",
    "expert",
    "mp",
    "model",
    "local",
    "node",
    "shard",
    "replicate",
)
_SAME_AXIS = {
    "tensor": "tp",
    "data": "dp",
    "sequence": "sp",
    "context": "cp",
    "pipeline": "pp",
    "pipe": "pp",
    "stage": "pp",
    "expert": "ep",
    "model": "mp",
    "intra": "local",
}

_TORCH_DRAWS = frozenset(
    """rand randn randint randperm normal bernoulli multinomial rand_like randn_like randint_like poisson dropout""".split()
)
_INPLACE_DRAWS = frozenset(
    """normal_ uniform_ bernoulli_ exponential_ random_ cauchy_ log_normal_ geometric_ multinomial""".split()
)
_PY_DRAWS = frozenset(
    """random randint randrange choice choices shuffle sample uniform gauss normalvariate betavariate triangular
    getrandbits""".split()
)
_NP_NO_DRAW = frozenset(
    """seed default_rng RandomState Generator get_state set_state SeedSequence PCG64 Philox BitGenerator""".split()
)
_INIT_DRAWS = ("normal_", "uniform_", "trunc_normal_", "orthogonal_", "sparse_")
_RNG_GUARDS = frozenset(
    """fork_rng set_rng_state set_rng_state_all setstate set_state preserve_rng_state get_cuda_rng_tracker""".split()
)

_NAN_CHECKS = frozenset("isnan isinf isfinite isneginf isposinf".split())
_TENSOR_READS = frozenset("item any all isnan isinf isfinite".split())
_CLOCKS = frozenset("time.time time.perf_counter time.monotonic time.process_time".split())
_UNIFORM_WORDS = ("step", "epoch", "iter", "lr", "size", "dim", "version")
_AGREED_NORMS = ("grad_norm", "total_norm")  # clipping makes them the same on all ranks
# Names of a loss that is this rank's own, and of data that is.
_LOCAL_LOSSES = frozenset("loss loss_value train_loss batch_loss local_loss cur_loss current_loss step_loss".split())
_LOCAL_DATA = frozenset("batch sample samples minibatch data tokens labels targets mask boxes inputs images frames".split())
_SP_MARKS = (
    "sequence_parallel",
    "sp_size",
    "sp_group",
    "sp_rank",
    "sp_world_size",
    "ulysses",
    "context_parallel",
    "cp_size",
    "cp_group",
    "ring_attn",
    "seq_parallel",
)

_EVEN_WORDS = frozenset(
    """DistributedSampler DistributedBatchSampler ElasticDistributedSampler drop_last split_dataset_by_node Join
    prepare_data_loader num_replicas dp_world_size""".split()
)
_DISTRIBUTED_WORDS = frozenset(
    """world_size local_rank LOCAL_RANK WORLD_SIZE init_process_group get_world_size get_rank torch.distributed""".split()
)
_DISTRIBUTED_IMPORTS = (
    "torch.distributed", "paddle.distributed", "lightning", "pytorch_lightning", "deepspeed", "accelerate", "horovod", "mpi4py",
    "torch_xla", "megatron",
)  # fmt: skip
_NOT_OWN_RANK = (
    "matrix_rank", "full_rank", "max_rank", "num_rank", "src_rank", "dst_rank", "root_rank", "peer_rank", "target_rank",
    "master_rank", "this_rank", "per_rank", "each_rank", "on_rank", "of_rank", "size_rank", "and_rank",
)  # fmt: skip

_SKIP_DIRS = frozenset(
    """.git .hg .svn __pycache__ node_modules .venv venv .tox .nox .eggs .mypy_cache .pytest_cache site-packages""".split()
)

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
FunctionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef]


# ---------------------------------------------------------------------------
# Small helpers over the tree.


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a chain of names, with ``()`` for calls and ``[]`` for subscripts in it; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return head + "." + node.attr if head else ""
    if isinstance(node, ast.Call):
        head = dotted(node.func)
        return head + "()" if head else ""
    if isinstance(node, ast.Subscript):
        head = dotted(node.value)
        return head + "[]" if head else ""
    return ""


def last(name: str) -> str:
    """The last part of a dotted name."""
    return name.rsplit(".", 1)[-1]


def text(node: ast.AST, limit: int = 80) -> str:
    """Source of an expression, on one line, cut at ``limit`` characters."""
    try:
        out = " ".join(ast.unparse(node).split())
    except (ValueError, RecursionError):
        return "..."
    return out if len(out) <= limit else out[: limit - 3] + "..."


# What hangs below a node, by its id: blocks are looked at once for each question that is asked of them.
_below: dict[int, tuple[ast.AST, tuple[ast.AST, ...]]] = {}
_INNER = _FUNCTION + (ast.ClassDef, ast.Lambda)


def expressions(node: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes of a tree in source order, without entering functions, classes and lambdas defined in it."""
    known = _below.get(id(node))
    if known is not None and known[0] is node:
        return known[1]
    out: list[ast.AST] = []
    stack: list[ast.AST] = [node]
    while stack:
        top = stack.pop()
        out.append(top)
        stack.extend(c for c in reversed(list(ast.iter_child_nodes(top))) if not isinstance(c, _INNER))
    # Not of blocks: every level of nesting would hold its own copy.
    if isinstance(node, ast.stmt) and not hasattr(node, "body"):
        _below[id(node)] = (node, tuple(out))
    return tuple(out)


def inside(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a block in source order; a definition in it is not entered."""
    for node in body:
        if not isinstance(node, _INNER):
            yield from expressions(node)


_calls: dict[int, tuple[ast.AST, tuple[ast.Call, ...]]] = {}


def calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """The calls of a block in source order."""
    for node in nodes:
        if isinstance(node, _INNER):
            continue
        known = _calls.get(id(node))
        if known is None or known[0] is not node:
            known = (node, tuple(sub for sub in expressions(node) if isinstance(sub, ast.Call)))
            if isinstance(node, ast.stmt):
                _calls[id(node)] = known
        yield from known[1]


def conditional_calls(body: Sequence[ast.stmt], maybe: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Calls in source order, each with whether a condition other than "is this a distributed run" decides on it."""
    for statement in body:
        if isinstance(statement, ast.If):
            for call in calls([statement.test]):
                yield call, maybe
            known = distributed_guard(statement.test) or single_process(statement.test)
            yield from conditional_calls(statement.body, maybe or not known)
            yield from conditional_calls(statement.orelse, maybe or not known)
            maybe = maybe or (terminates(statement.body) is not None and not known)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                for call in calls([item.context_expr]):
                    yield call, maybe
            yield from conditional_calls(statement.body, maybe)
        else:
            for call in calls([statement]):
                yield call, maybe


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """The value of the first keyword argument with one of these names."""
    for kw in call.keywords:
        if kw.arg in names:
            return kw.value
    return None


def is_const(node: ast.AST | None, *values: object) -> bool:
    """Whether a node is one of these literals; -1 is a unary minus in the tree."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return isinstance(value, (int, float)) and any(type(v) is type(value) and v == -value for v in values)
    return isinstance(node, ast.Constant) and any(type(v) is type(node.value) and v == node.value for v in values)


def single_process(node: ast.AST) -> bool:
    """Whether a condition says that there is one process only: world_size == 1, not dist.is_initialized()."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return distributed_guard(node.operand)
    if isinstance(node, ast.BoolOp):
        return (
            all(single_process(v) for v in node.values)
            if isinstance(node.op, ast.Or)
            else any(single_process(v) for v in node.values)
        )
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sized = any(w in text(node.left).lower() for w in ("world_size", "num_processes", "device_count", "n_gpu", "num_gpus"))
        if sized and isinstance(node.ops[0], (ast.Eq, ast.LtE)) and is_const(node.comparators[0], 1):
            return True
        if sized and isinstance(node.ops[0], ast.Lt) and is_const(node.comparators[0], 2):
            return True
        return "rank" in text(node.left) and isinstance(node.ops[0], ast.Eq) and is_const(node.comparators[0], -1)
    return False


def distributed_guard(node: ast.AST) -> bool:
    """Whether a condition says that there are several processes: dist.is_initialized(), world_size > 1, args.distributed."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return single_process(node.operand)
    if isinstance(node, ast.BoolOp):
        return all(distributed_guard(v) for v in node.values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sized = any(w in text(node.left).lower() for w in ("world_size", "num_processes", "device_count", "n_gpu", "num_gpus"))
        if sized:
            return isinstance(node.ops[0], (ast.Gt, ast.NotEq)) and is_const(node.comparators[0], 1)
        return "rank" in text(node.left) and isinstance(node.ops[0], ast.NotEq) and is_const(node.comparators[0], -1)
    word = last(dotted(node.func if isinstance(node, ast.Call) else node)).lower()
    return word in (
        "is_initialized", "is_available", "distributed", "is_distributed", "use_distributed", "ddp", "use_ddp", "is_ddp",
        "is_dist_avail_and_initialized", "is_dist_initialized", "is_torch_distributed", "multi_gpu", "use_dist",
    )  # fmt: skip


def names_in(node: ast.AST) -> set[str]:
    """Names and attribute chains that an expression reads."""
    out: set[str] = set()
    for sub in expressions(node):
        if isinstance(sub, (ast.Name, ast.Attribute)):
            name = dotted(sub)
            if name:
                out.add(name)
    return out


def terminates(body: Sequence[ast.stmt]) -> ast.stmt | None:
    """The return, continue or break that ends a block; not ``raise``, which ends the job instead of making it wait."""
    if body and isinstance(body[-1], (ast.Return, ast.Continue, ast.Break)):
        return body[-1]
    return None


# ---------------------------------------------------------------------------
# Reading files.


class Trouble(NamedTuple):
    """A file that was not audited, and why."""

    file: str
    line: int
    reason: str


def discover(roots: Sequence[str], skipped: list[Trouble]) -> list[str]:
    """Python files below the roots, sorted, each once; links to folders are not followed, special files are skipped."""
    found: list[str] = []
    seen: set[tuple[int, int]] = set()

    def add(path: str) -> None:
        try:
            info = os.stat(path)
        except OSError as err:
            skipped.append(Trouble(path, 0, "cannot be opened: %s" % (err.strerror or err)))
            return
        if not stat.S_ISREG(info.st_mode):
            skipped.append(Trouble(path, 0, "not a regular file"))
        elif (info.st_dev, info.st_ino) in seen:
            pass  # another name of a file that is read already
        elif info.st_size > MAX_BYTES:
            skipped.append(Trouble(path, 0, "%d bytes, more than the limit of %d" % (info.st_size, MAX_BYTES)))
        elif len(found) >= MAX_FILES:
            skipped.append(Trouble(path, 0, "more than %d files" % MAX_FILES))
        else:
            seen.add((info.st_dev, info.st_ino))
            found.append(path)

    def denied(err: OSError) -> None:
        skipped.append(Trouble(str(err.filename), 0, "cannot be listed: %s" % (err.strerror or err)))

    for root in roots:
        if not os.path.isdir(root):
            add(root)
            continue
        for folder, dirs, files in os.walk(root, onerror=denied, followlinks=False):
            dirs[:] = sorted(d for d in dirs if d not in _SKIP_DIRS)
            for name in sorted(files):
                if name.endswith((".py", ".pyw")):
                    add(os.path.join(folder, name))
    return found


class Function:
    """A function, method or module body of the audited sources."""

    def __init__(self, module: Module, name: str, node: ast.AST, body: Sequence[ast.stmt], owner: str) -> None:
        self.module = module
        self.name = name
        self.node = node
        self.body = body
        self.owner = owner  # the class, "" outside of one
        arguments = getattr(node, "args", None)
        self.parameters = {a.arg for a in ast.walk(arguments) if isinstance(a, ast.arg)} if arguments is not None else set()
        self.decorators = [last(dotted(d.func if isinstance(d, ast.Call) else d)) for d in getattr(node, "decorator_list", [])]


class Module:
    """A parsed file with its imports and definitions."""

    def __init__(self, path: str, shown: str, tree: ast.Module, lines: Sequence[str]) -> None:
        self.path = path
        self.shown = shown
        self.tree = tree
        self.lines = lines
        self.imports: dict[str, str] = {}
        self.functions: list[Function] = [Function(self, "<module>", tree, tree.body, "")]
        self.by_name: dict[str, Function] = {}
        self.methods: dict[tuple[str, str], Function] = {}
        self.bases: dict[str, list[str]] = {}
        self.words: set[str] = set()
        self.wrapped: dict[str, str] = {}  # name of a sharded model -> wrapper
        self.globals: dict[str, Kind] = {}
        stem = os.path.splitext(shown)[0].replace(os.sep, "/")
        self.dotted = (stem[: -len("/__init__")] if stem.endswith("/__init__") else stem).replace("/", ".")
        self._collect(tree, "")
        for node in ast.walk(tree):
            self._note(node)
        self.distributed = bool(self.words & _DISTRIBUTED_WORDS) or any(
            v.startswith(_DISTRIBUTED_IMPORTS) for v in self.imports.values()
        )
        self.speaks_of_ranks = self.distributed or any(
            w in _MAIN_NAMES or w in _DISTINCT or w.endswith("rank") for w in self.words
        )

    def _collect(self, node: ast.AST, owner: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _FUNCTION):
                function = Function(self, child.name, child, child.body, owner)
                self.functions.append(function)
                if owner:
                    self.methods.setdefault((owner, child.name), function)
                else:
                    self.by_name.setdefault(child.name, function)
                self._collect(child, "")
            elif isinstance(child, ast.ClassDef):
                self.bases[child.name] = [last(dotted(b)) for b in child.bases]
                self._collect(child, child.name)
            else:
                self._collect(child, owner)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.words.add(alias.name)
                if alias.asname:
                    self.imports[alias.asname] = alias.name
                else:
                    self.imports.setdefault(alias.name.split(".")[0], alias.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = self.dotted.split(".")
                if os.path.basename(self.shown) != "__init__.py":
                    package = package[:-1]
                package = package[: len(package) - (node.level - 1)] if node.level > 1 else package
                base = ".".join(package + ([base] if base else []))
            if base:
                self.words.add(base)
            for alias in node.names:
                self.words.add(alias.name)
                self.imports[alias.asname or alias.name] = base + "." + alias.name if base else alias.name
        elif isinstance(node, ast.Name):
            self.words.add(node.id)
        elif isinstance(node, ast.Attribute):
            self.words.add(node.attr)
        elif isinstance(node, ast.arg) or (isinstance(node, ast.keyword) and node.arg):
            self.words.add(str(node.arg))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 40:
            self.words.add(node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if last(dotted(node.value.func)) in ("FSDP", "FullyShardedDataParallel"):
                self.wrapped.update((dotted(target), "FSDP") for target in node.targets if dotted(target))
        elif isinstance(node, ast.Call) and last(dotted(node.func)) == "fully_shard" and node.args and dotted(node.args[0]):
            self.wrapped.setdefault(dotted(node.args[0]), "fully_shard")

    def canonical(self, name: str) -> str:
        """A dotted name with its first part replaced by what was imported under it."""
        head, dot, rest = name.partition(".")
        return self.imports.get(head, head) + dot + rest


def parse(path: str, shown: str) -> Union[Module, Trouble]:
    """Parse one file. Encoding cookies are honoured; what cannot be parsed is told, never raised."""
    try:
        with open(path, "rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as err:
        return Trouble(shown, 0, "cannot be read: %s" % (err.strerror or err))
    if len(raw) > MAX_BYTES:
        return Trouble(shown, 0, "grew beyond the limit of %d bytes" % MAX_BYTES)
    try:
        tree = ast.parse(raw, filename=shown)
        return Module(path, shown, tree, raw.decode("utf-8", "replace").splitlines())
    except SyntaxError as err:
        return Trouble(
            shown, err.lineno or 0, "syntax error for Python %d.%d: %s" % (sys.version_info[0], sys.version_info[1], err.msg)
        )
    except (ValueError, LookupError) as err:
        return Trouble(shown, 0, "cannot be parsed: %s" % err)
    except (RecursionError, MemoryError):
        return Trouble(shown, 0, "nested too deeply for the parser")


# ---------------------------------------------------------------------------
# Conditions.


class Kind(NamedTuple):
    """What an expression depends on: "rank", "data", or "uniform" (agreed by all ranks)."""

    kind: str
    axis: str = ""  # tp, dp, ... where a rank is one along an axis; several, separated by blanks
    side: str = ""  # "main": true on one rank; "rest": true on the others
    member: bool = False  # a test for membership (rank in ranks, rank % n) and not for one rank
    group: str = ""  # of get_rank(group)
    partly: bool = False  # one of several conditions joined by "and", whose others are not known


UNIFORM = Kind("uniform")


def axis_of(name: str) -> str:
    """The parallel axis that a name speaks of: "tp" of tp_rank, tensor_parallel_group or get_local_rank("tp")."""
    parts = name.lower().replace(".", "_").replace("(", "_").replace(")", "_").replace("'", "_").replace('"', "_").split("_")
    for part in parts:
        if part in _AXES or part == "intra":
            return _SAME_AXIS.get(part, part)
    return ""


class Scope:
    """What is known of names while a function is read, statement by statement."""

    def __init__(self, project: Project, function: Function) -> None:
        self.project = project
        self.function = function
        self.module = function.module
        self.known: dict[str, Kind | None] = {}

    def lookup(self, name: str) -> Kind | None:
        """The kind of a name: by its assignment here, at module level or to an attribute anywhere, else by its spelling."""
        if name in self.known:
            return self.known[name]
        if name in self.module.globals:
            return self.module.globals[name]
        word = last(name)
        if "." in name and word in self.project.rank_attributes:
            return self.project.rank_attributes[word]
        if word in _MAIN_NAMES:
            return Kind("rank", axis="local" if "local" in word else "", side="main")
        return self.rank_number(name)

    def rank_number(self, name: str) -> Kind | None:
        """Whether a name, by its spelling, holds a rank; a bare ``rank`` only in distributed code: it may be a LoRA's."""
        word = last(name).lower()
        if word == "rank":
            if not self.module.distributed or "lora" in (self.function.owner + name).lower():
                return None
            return Kind("rank")
        if word in _RANK_NAMES or word.endswith("_rank"):
            if "lora" in word or "low_rank" in word or word.endswith(_NOT_OWN_RANK):
                return None
            return Kind("rank", axis=axis_of(word))
        return None

    # -- values

    def rank_value(self, node: ast.AST) -> Kind | None:
        """The kind of an expression that is a rank number, else None."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            kind = self.lookup(dotted(node))
            return kind if kind and kind.kind == "rank" else None
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            word = last(name)
            if word in ("int", "str") and node.args:
                return self.rank_value(node.args[0])
            if word in ("get_ordinal", "process_index", "Get_rank", "global_rank", "local_rank") or (
                word == "rank" and not node.args
            ):
                return Kind("rank", axis="local" if word == "local_rank" else "")
            if word == "get_rank" or (word.startswith("get_") and self.rank_number(word[4:]) and "src" not in word):
                argument = node.args[0] if node.args else keyword(node, "group", "process_group", "mesh_dim")
                spoken = text(argument) if argument is not None and not is_const(argument, None) else ""
                return Kind("rank", axis=axis_of(spoken) or (axis_of(word) if word != "get_local_rank" else ""), group=spoken)
            if (
                word in ("get", "getenv")
                and node.args
                and is_const(node.args[0], "RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
            ):
                return Kind("rank", axis="local" if is_const(node.args[0], "LOCAL_RANK") else "")
            return None
        if (
            isinstance(node, ast.Subscript)
            and last(dotted(node.value)) == "environ"
            and is_const(node.slice, "RANK", "LOCAL_RANK", "SLURM_PROCID")
        ):
            return Kind("rank", axis="local" if is_const(node.slice, "LOCAL_RANK") else "")
        if isinstance(node, ast.BinOp):
            kind = self.rank_value(node.left) or self.rank_value(node.right)
            return kind._replace(member=True, side="") if kind else None
        if isinstance(node, ast.IfExp):
            return self.rank_value(node.body) or self.rank_value(node.orelse)
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                kind = self.rank_value(value)
                if kind:
                    return kind
        return None

    def data(self, node: ast.AST) -> bool:
        """Whether an expression reads this rank's own data: a tensor's value, a clock, a random draw."""
        for sub in expressions(node):
            if isinstance(sub, ast.comprehension) and self.agreed(sub.iter):
                self.assign_agreed(sub.target)
        for sub in expressions(node):
            if isinstance(sub, (ast.Name, ast.Attribute)):
                kind = self.known.get(dotted(sub))
                if kind is not None and kind.kind == "data":
                    return True
            if not isinstance(sub, ast.Call):
                continue
            name = dotted(sub.func)
            full = self.module.canonical(name)
            if full in _CLOCKS or self.project.draw(self.module, sub):
                return True
            word = sub.func.attr if isinstance(sub.func, ast.Attribute) else name
            subject: ast.expr | None = None
            if word in _NAN_CHECKS and sub.args:
                subject = sub.args[0]
            elif isinstance(sub.func, ast.Attribute) and word in _TENSOR_READS:
                subject = sub.func.value if full.split(".")[0] not in ("torch", "numpy", "jax") else None
            if subject is not None and not self.agreed(subject):
                return True
        return False

    def assign_agreed(self, target: ast.AST) -> None:
        """Note that the names of a target hold what all ranks agree on."""
        for sub in ast.walk(target):
            if isinstance(sub, ast.Name):
                self.known[sub.id] = UNIFORM

    def agreed(self, node: ast.AST) -> bool:
        """Whether a value is the same on all ranks: it went through a collective, or its name says that it counts steps."""
        names = names_in(node)
        if not names:
            return isinstance(node, ast.Constant)
        for name in names:
            if any("." in other and other.startswith(name + ".") for other in names):
                continue  # the head of a longer chain
            if any(part in self.module.imports for part in (name, name.split(".")[0])) and name.split(".")[0] in (
                "torch",
                "np",
                "numpy",
                "math",
                "dist",
            ):
                continue
            kind = self.known.get(name) or self.known.get(name.split(".")[0])
            if kind is not None and kind.kind == "uniform":
                continue
            if any(part.startswith(_UNIFORM_WORDS) for part in last(name).lower().split("_")) or last(name).endswith(
                _AGREED_NORMS
            ):
                continue
            return False
        return True

    # -- conditions

    def classify(self, node: ast.AST) -> Kind | None:
        """The kind of a condition; None where all ranks agree or nothing is known."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            kind = self.classify(node.operand)
            if kind and kind.kind == "rank":
                return kind._replace(side={"main": "rest", "rest": "main"}.get(kind.side, ""))
            return kind
        if isinstance(node, ast.BoolOp):
            return self._joined(node)
        if isinstance(node, ast.NamedExpr):
            return self.classify(node.value)
        if isinstance(node, ast.IfExp):
            arms = [k for k in (self.classify(node.body), self.classify(node.orelse)) if k and k.kind == "rank"]
            return arms[0] if arms else self.classify(node.test)
        if isinstance(node, ast.Compare):
            kind = self._compare(node)
            if kind is not None:
                return kind if kind.kind == "rank" else None
            return Kind("data") if self.data(node) or self._local_value(node) else None
        if isinstance(node, ast.Call):
            word = last(dotted(node.func))
            if word in ("bool", "int") and len(node.args) == 1:
                return self.classify(node.args[0])
            target = self.project.resolve(self.function, node)
            if word in _MAIN_NAMES:
                return Kind("rank", axis="local" if "local" in word else "", side="main")
            if target is not None and self.project.ops(target):
                return None  # its result went through a collective
            if target is not None:
                kind = self.project.returns(target)
                if kind:
                    return kind if kind.axis else kind._replace(axis=axis_of(word))
            if word in ("is_pipeline_first_stage", "is_pipeline_last_stage", "is_first_stage", "is_last_stage"):
                return Kind("rank", axis="pp")
            kind = self.rank_value(node)
            if kind:
                return kind._replace(side="rest")
            return Kind("data") if self.data(node) else None
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = dotted(node)
            kind = self.lookup(name)
            if kind is not None:
                if kind.kind == "uniform":
                    return None
                return kind if kind.side or kind.kind == "data" else kind._replace(side="rest")
            return None
        return Kind("data") if self.data(node) else None

    def _joined(self, node: ast.BoolOp) -> Kind | None:
        """Conditions joined by and / or.

        ``not initialized or rank == 0`` is a test for a rank; ``sharded or rank == 0``
        is the idiom that lets all ranks in where they are needed, and is none.
        """
        kinds = [self.classify(v) for v in node.values]
        ranks = [k for k in kinds if k and k.kind == "rank"]
        others = [
            v
            for v, k in zip(node.values, kinds)
            if (k is None or k.kind != "rank") and not single_process(v) and not distributed_guard(v)
        ]
        if not ranks:
            return next((k for k in kinds if k), None)
        if isinstance(node.op, ast.Or) and others:
            return None
        first = ranks[0]
        axes = sorted({a for k in ranks for a in k.axis.split()}) if all(k.axis for k in ranks) else []
        return first._replace(
            axis=" ".join(axes), partly=any(k.partly for k in ranks) or bool(others), member=any(k.member for k in ranks)
        )

    def _local_value(self, node: ast.Compare) -> bool:
        """Comparisons that are known by names: a loss with a bound, the size of a batch with 0, a batch with None."""
        if len(node.ops) != 1:
            return False
        left, op, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            sides = [dotted(side) for side in (left, right)]
            if any(last(name) in _LOCAL_LOSSES and self.known.get(name) is None for name in sides if name):
                return True
        if is_const(right, None):
            # batch = next(it, None): a parameter or an option that is None is so on all ranks.
            return (
                isinstance(left, ast.Name)
                and left.id in _LOCAL_DATA
                and left.id not in self.function.parameters
                and left.id in self.known
            )
        if not is_const(right, 0):
            return False
        subject, name = left, dotted(left)
        if isinstance(left, ast.Call) and name == "len()" and left.args:
            subject = left.args[0]
        elif name.endswith((".numel()", ".size()")) and isinstance(left, ast.Call) and isinstance(left.func, ast.Attribute):
            subject = left.func.value
        elif name.endswith(".shape[]") and isinstance(left, ast.Subscript) and isinstance(left.value, ast.Attribute):
            subject = left.value.value
        else:
            return False
        if not isinstance(subject, ast.Name) or subject.id not in _LOCAL_DATA:
            return False
        kind = self.known.get(subject.id)
        return kind is None or kind.kind != "uniform"

    def _compare(self, node: ast.Compare) -> Kind | None:
        """A comparison with a rank in it: its kind, UNIFORM for idioms that all ranks agree on, None if there is no rank."""
        sides = [node.left] + list(node.comparators)
        kind, at = None, 0
        for i, side in enumerate(sides):
            kind = self.rank_value(side)
            if kind:
                at = i
                break
        if not kind:
            # A flag compared: is_main is True.
            left = self.classify(node.left) if isinstance(node.left, (ast.Name, ast.Attribute, ast.Call)) else None
            if left and left.kind == "rank" and len(sides) == 2 and is_const(sides[1], True, False):
                flip = is_const(sides[1], False) != isinstance(node.ops[0], (ast.NotEq, ast.IsNot))
                return left._replace(side={"main": "rest", "rest": "main"}.get(left.side, "")) if flip else left
            return None
        if len(sides) != 2:
            return kind._replace(member=True)
        other, op = sides[1 - at], node.ops[0]
        if is_const(other, -1, None):
            return UNIFORM  # local_rank == -1, rank is None: is this a distributed run at all?
        if is_const(other, 0) and ((at == 0 and isinstance(op, ast.GtE)) or (at == 1 and isinstance(op, ast.LtE))):
            return UNIFORM  # rank >= 0
        counts = last(dotted(other.func if isinstance(other, ast.Call) else other)) in (
            "world_size",
            "get_world_size",
            "num_processes",
        )
        if counts and isinstance(op, (ast.Lt, ast.GtE)):
            return UNIFORM  # rank < world_size
        if self.rank_value(other):
            return kind._replace(member=True)
        if isinstance(op, (ast.In, ast.NotIn)):
            if not isinstance(other, (ast.List, ast.Tuple, ast.Set)):
                return kind._replace(member=True)
            zero = any(is_const(e, 0) for e in other.elts)
            inside = isinstance(op, ast.In)
            return kind._replace(side="main" if zero == inside else "rest")
        if is_const(other, 0):
            if isinstance(op, (ast.Eq, ast.Is)):
                return kind._replace(side="main")
            if (
                isinstance(op, (ast.NotEq, ast.IsNot))
                or (at == 0 and isinstance(op, ast.Gt))
                or (at == 1 and isinstance(op, ast.Lt))
            ):
                return kind._replace(side="rest")
        if is_const(other, 1) and at == 0 and isinstance(op, ast.Lt):
            return kind._replace(side="main")
        if isinstance(op, (ast.Eq, ast.NotEq)):
            return kind._replace(side="main" if isinstance(op, ast.Eq) else "rest")
        return kind._replace(member=True)

    # -- assignments

    def assign(self, targets: Sequence[ast.AST], value: ast.AST | None) -> None:
        """Note what names hold after an assignment."""
        kind = self._kind_of_value(value) if value is not None else None
        for target in targets:
            if (
                isinstance(target, (ast.Tuple, ast.List))
                and isinstance(value, (ast.Tuple, ast.List))
                and len(target.elts) == len(value.elts)
            ):
                for one, its in zip(target.elts, value.elts):
                    self.assign([one], its)
                continue
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            if len(parts) > 1 and kind is not None and kind.kind == "rank":
                kind = None  # size, rank = f(): which is which, their names say
            for part in parts:
                name = dotted(part.value if isinstance(part, ast.Starred) else part)
                if not name:
                    continue
                if kind is None and self.rank_number(name):
                    self.known.pop(name, None)  # rank = args.rank: the name still says it
                elif kind is None and last(name) in _MAIN_NAMES:
                    self.known.pop(name, None)
                else:
                    self.known[name] = kind

    def _kind_of_value(self, value: ast.AST) -> Kind | None:
        if isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp)) or (
            isinstance(value, ast.Call) and last(dotted(value.func)) in ("bool",)
        ):
            kind = self.classify(value)
            if kind:
                return kind
        kind = self.rank_value(value)
        if kind:
            return kind
        if isinstance(value, ast.IfExp):
            kind = self.classify(value)
            if kind and kind.kind == "rank":
                return kind
        for call in calls([value]):
            if self.project.collective(self.function, call):
                return UNIFORM
            target = self.project.resolve(self.function, call)
            if target is not None and self.project.ops(target):
                return UNIFORM
            if "clip_grad_norm" in last(dotted(call.func)):
                return UNIFORM
        if isinstance(value, ast.Call) and self.classify(value) is not None:
            return self.classify(value)
        names = names_in(value)
        if self.data(value):
            return Kind("data")
        kinds = [self.known[n] for n in names if n in self.known]
        if any(k is not None and k.kind == "uniform" for k in kinds):
            return UNIFORM
        return None

    def agree(self, call: ast.Call, op: str) -> None:
        """A collective makes its output the same on all ranks of the group; a gather to one rank or an exchange does not."""
        if not call.args or not op.startswith(("all_reduce", "allreduce", "all_gather", "_all_gather", "broadcast")):
            return
        output = call.args[0]
        for part in output.elts if isinstance(output, (ast.List, ast.Tuple)) else [output]:
            name = dotted(part)
            if name and not name.endswith(")"):
                self.known[name] = UNIFORM


# ---------------------------------------------------------------------------
# The project: all files, the call graph by name.


class Op(NamedTuple):
    """A collective: its name, what it is for, its group as written, and how it was reached."""

    name: str
    kind: str  # "collective", "gather" (of the full state), "sharded" (a save that all ranks take part in), "group"
    group: str
    soft: bool
    maybe: bool  # under a condition of its own in the function that makes it
    shown: str
    path: tuple[tuple[str, int, str], ...]  # (file, line, call) from the outermost call to the collective


class Project:
    """All audited modules."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self.modules = modules
        self.by_dotted: dict[str, list[Module]] = {}
        self.method_names: dict[str, list[Function]] = {}
        self.function_names: dict[str, list[Function]] = {}
        self.rank_attributes: dict[str, Kind] = {}
        self._ops: dict[int, tuple[Op, ...] | None] = {}
        self._draws: dict[int, str | None] = {}
        self._returns: dict[int, Kind | None] = {}
        for module in modules:
            self.by_dotted.setdefault(last(module.dotted), []).append(module)
            for (_, name), function in module.methods.items():
                self.method_names.setdefault(name, []).append(function)
            for name, function in module.by_name.items():
                self.function_names.setdefault(name, []).append(function)
        self.sharded = any(m.words & _SHARDED_MARKS for m in modules)
        # Sources without a word of it have no flow to look at.
        self.speaks_of_ranks = any(m.speaks_of_ranks for m in modules)
        self._attributes()

    def _attributes(self) -> None:
        """Attributes and globals that hold a test for a rank: self.master = rank == 0."""
        clash: set[str] = set()
        for module in self.modules:
            for function in module.functions if self.speaks_of_ranks else ():
                scope = Scope(self, function)
                for node in inside(function.body):
                    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                        continue
                    kind = (
                        scope.classify(node.value)
                        if isinstance(node.value, (ast.Compare, ast.BoolOp, ast.UnaryOp))
                        else scope.rank_value(node.value)
                    )
                    kind = kind if kind and kind.kind == "rank" else None
                    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                        name = dotted(target)
                        word = last(name)
                        if "." in name and kind is None and word in self.rank_attributes:
                            clash.add(word)
                        elif "." in name and kind is not None and word != "rank":
                            self.rank_attributes.setdefault(word, kind)
                        elif name and kind is not None and function.name == "<module>":
                            module.globals[name] = kind
        for word in clash:
            if word not in _RANK_NAMES and word not in _MAIN_NAMES:
                self.rank_attributes.pop(word, None)

    def returns(self, function: Function) -> Kind | None:
        """The kind of a small helper's result where it is a test for a rank: def is_main(): return get_rank() == 0."""
        key = id(function)
        if key not in self._returns:
            self._returns[key] = None
            if len(function.body) <= 8:
                scope = Scope(self, function)
                for node in inside(function.body):
                    if isinstance(node, ast.Assign):
                        scope.assign(node.targets, node.value)
                    elif isinstance(node, ast.Return) and isinstance(
                        node.value, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Call, ast.Name)
                    ):
                        kind = scope.classify(node.value)
                        if kind is not None and kind.kind == "rank" and (kind.side or kind.member):
                            self._returns[key] = kind
                            break
        return self._returns[key]

    # -- calls

    def resolve(self, function: Function, call: ast.Call) -> Function | None:
        """The audited function that a call reaches, by name; None where that is not certain."""
        module = function.module
        name = dotted(call.func)
        if not name or "(" in name.replace("super()", "") or "[" in name:
            name = name if name.startswith("super()") else ""
        if not name:
            return None
        head, _, rest = name.partition(".")
        if not rest:
            if head in module.by_name:
                return module.by_name[head]
            full = module.imports.get(head)
            return self._imported(full) if full else None
        word = last(name)
        if head in ("self", "cls", "super()") and rest == word and function.owner:
            return self._method(module, function.owner, word, set())
        if head in module.bases and rest == word:
            return self._method(module, head, word, set())
        full = module.canonical(name)
        if head in module.imports:
            found = self._imported(full)
            if found:
                return found
            return None
        # A method on an object of unknown class: only where one class has it and the name is not everybody's.
        owners = self.method_names.get(word, [])
        if (
            len(owners) == 1
            and "_" in word.strip("_")
            and word not in ("state_dict", "load_state_dict", "zero_grad", "set_epoch", "train_step")
        ):
            return owners[0]
        return None

    def _imported(self, full: str) -> Function | None:
        path, _, name = full.rpartition(".")
        if not path:
            return None
        for module in self.by_dotted.get(last(path), []):
            if (
                module.dotted == path or module.dotted.endswith("." + path) or path.endswith("." + module.dotted)
            ) and name in module.by_name:
                return module.by_name[name]
        # A package that re-exports: one function of that name in the files below it.
        below = [f for f in self.function_names.get(name, []) if ("." + f.module.dotted).find("." + path + ".") >= 0]
        return below[0] if len(below) == 1 else None

    def _method(self, module: Module, owner: str, name: str, seen: set[str]) -> Function | None:
        if owner in seen:
            return None
        seen.add(owner)
        if (owner, name) in module.methods:
            return module.methods[(owner, name)]
        for base in module.bases.get(owner, []):
            for other in [module] + [m for m in self.modules if base in m.bases and m is not module]:
                if base in other.bases:
                    found = self._method(other, base, name, seen)
                    if found:
                        return found
        return None

    def collective(self, function: Function, call: ast.Call) -> Op | None:
        """The collective that a call is by itself, else None."""
        name = dotted(call.func)
        kind, soft = self._collective_kind(function, call, name) if name else ("", False)
        if not kind:
            return None
        group = keyword(call, "group", "process_group", "pg")
        if group is None:
            group = next((a for a in call.args[1:] if "group" in dotted(a).lower()), None)
        spoken = "" if group is None or is_const(group, None) or text(group).endswith("group.WORLD") else text(group)
        return Op(last(name), kind, spoken, soft, False, name, ((function.module.shown, call.lineno, name),))

    def _collective_kind(self, function: Function, call: ast.Call, name: str) -> tuple[str, bool]:
        """The kind of an Op and whether it is soft; "" for a call that is no collective."""
        module = function.module
        receiver, _, op = module.canonical(name).rpartition(".")
        end = last(receiver).lower()
        written = last(name.rpartition(".")[0]).lower()
        foreign = bool(receiver) and written not in ("self", "cls", "super()")
        if op in _C10D and (receiver in _DIST_MODULES or end in _DIST_RECEIVERS or written in _DIST_RECEIVERS):
            return "collective", False
        if foreign and (op in _DISTINCT or op.startswith(_DISTINCT_PREFIXES)) and self.resolve(function, call) is None:
            return "collective", False
        if op == "all_gather" and written == "self" and "LightningModule" in module.bases.get(function.owner, []):
            return "collective", False
        if op == "new_group" and (receiver in _DIST_MODULES or written in _DIST_RECEIVERS):
            return "group", False
        if op in _DCP and (receiver.startswith("torch.distributed.checkpoint") or written == "dcp"):
            return "sharded", False
        if op in _DCP_STATE and receiver.startswith("torch.distributed.checkpoint"):
            options = keyword(call, "options")
            full = options is not None and "full_state_dict=True" in text(options, 400)
            full = full or (isinstance(options, ast.Name) and "full_state_dict" in module.words)
            return ("gather" if full else "sharded"), False
        if self._gathers(module, call, op, written):
            return "gather", False
        for tail, methods in _FRAMEWORKS.items():
            if not (written == tail or written.endswith("_" + tail) or (end == tail and tail != "comm")):
                continue
            if (
                tail == "comm"
                and op not in _DISTINCT | {"barrier"}
                and "mpi4py" not in {v.split(".")[0] for v in module.imports.values()}
            ):
                continue
            if op in methods:
                return "collective", False
            if (tail, op) in _SOFT:
                return "gather", True
        return "", False

    def _gathers(self, module: Module, call: ast.Call, op: str, written: str) -> bool:
        """Whether a call gathers a full, sharded state."""
        deepspeed = "deepspeed" in module.words
        if op == "full_tensor" or op == "GatheredParameters" or (op in _GATHER_METHODS and (self.sharded or deepspeed)):
            return True
        if op in ("state_dict_type", "set_state_dict_type"):
            return "FULL_STATE_DICT" in text(call, 400)
        if op == "save_checkpoint" and written.endswith("trainer"):
            return any(w.startswith(("lightning", "pytorch_lightning")) for w in module.words)
        return op == "save_checkpoint" and deepspeed and written.endswith(("engine", "model"))

    def found(self, function: Function, call: ast.Call) -> tuple[Op, ...]:
        """The collectives that a call makes, itself or through audited functions."""
        own = self.collective(function, call)
        if own:
            return (own,)
        target = self.resolve(function, call)
        if target is None or target is function:
            return ()
        step = (function.module.shown, call.lineno, dotted(call.func))
        return tuple(op._replace(path=(step,) + op.path) for op in self.ops(target))

    def ops(self, function: Function) -> tuple[Op, ...]:
        """The collectives of a function in source order, first 24, followed through calls; a recursion counts once."""
        key = id(function)
        if key not in self._ops:
            self._ops[key] = None
            out: list[Op] = []
            if not set(function.decorators) & _RANK_DECORATORS:
                for call, maybe in conditional_calls(function.body, False):
                    out.extend(op._replace(maybe=True) if maybe else op for op in self.found(function, call))
                    if len(out) >= 24:
                        break
            self._ops[key] = tuple(out[:24])
        return self._ops[key] or ()

    @staticmethod
    def words(function: Function) -> set[str]:
        """Names, attributes and parameters in a function."""
        out = {last(dotted(n)) for n in inside(function.body) if isinstance(n, (ast.Name, ast.Attribute))}
        if function.name != "<module>":
            out |= {a.arg for a in ast.walk(function.node) if isinstance(a, ast.arg)}
        return out

    # -- random numbers

    def draw(self, module: Module, call: ast.Call) -> str:
        """The name of the draw from a default generator that a call is, "" if it is none."""
        given = keyword(call, "generator", "rng", "random_state", "key")
        if given is not None and not is_const(given, None):
            return ""
        name = dotted(call.func)
        full = module.canonical(name)
        head, _, op = full.rpartition(".")
        if head == "torch" and op in _TORCH_DRAWS:
            return name
        if head == "torch.nn.functional" and op.startswith(("dropout", "alpha_dropout", "feature_alpha_dropout")):
            training = keyword(call, "training")
            return "" if is_const(training, False) else name
        if head == "torch.nn.init" and (op in _INIT_DRAWS or op.startswith(("kaiming_", "xavier_"))):
            return name
        if head == "numpy.random" and op not in _NP_NO_DRAW:
            return name
        if head == "random" and op in _PY_DRAWS and module.imports.get(name.split(".")[0]) in ("random", "random." + op):
            return name
        if (
            isinstance(call.func, ast.Attribute)
            and call.args
            and "dropout" in op
            and op == op.lower()
            and not op.startswith(("set_", "get_"))
        ):
            return name
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in _INPLACE_DRAWS
            and head != "torch.nn.init"
            and not full.startswith(("jax.", "tf."))
        ):
            return name or call.func.attr
        return ""

    def draws(self, function: Function) -> str:
        """The first draw from a default generator in a function or what it calls, "" if there is none."""
        key = id(function)
        if key not in self._draws:
            self._draws[key] = None
            out = ""
            words = {last(dotted(c.func)) for c in calls(function.body)}
            if not words & _RNG_GUARDS:
                for call in calls(function.body):
                    name = self.draw(function.module, call)
                    if name:
                        out = "%s (%s:%d)" % (name, function.module.shown, call.lineno)
                        break
                    target = self.resolve(function, call)
                    if target is not None and target is not function:
                        out = self.draws(target)
                        if out:
                            break
            self._draws[key] = out
        return self._draws[key] or ""


# ---------------------------------------------------------------------------
# The walk over one function.


class Condition(NamedTuple):
    """A condition that encloses the statement being looked at."""

    kind: Kind
    line: int
    shown: str
    for_ops: bool  # collectives under it are suspect (False where the branches are symmetric)
    for_draws: bool


class Finding(NamedTuple):
    """One place that a rule names."""

    file: str
    line: int
    rule: str
    severity: str
    reason: str
    path: tuple[tuple[str, int, str], ...] = ()


class Checker:
    """Applies the flow rules to one function."""

    def __init__(self, project: Project, function: Function, report: Report) -> None:
        self.project = project
        self.function = function
        self.module = function.module
        self.report = report
        self.scope = Scope(project, function)
        self.conditions: list[Condition] = []
        self.paired: set[int] = set()
        self.muted = 0  # above 0 in code that runs with one process only
        self.syncs = bool(self.module.words & _SYNC_MARKS)

    def run(self) -> None:
        """Check the body of the function."""
        marks = [d for d in self.function.decorators if d in _RANK_DECORATORS]
        if marks:
            line = getattr(self.function.node, "lineno", 1)
            self.conditions.append(Condition(Kind("rank", side="main"), line, "@" + marks[0], True, True))
        self.block(self.function.body, [])

    # -- blocks

    def block(self, body: Sequence[ast.stmt], after: list[Sequence[ast.stmt]]) -> None:
        """Visit statements; ``after`` are the statements that still run once this block is left in order."""
        self.pair(body)
        for i, statement in enumerate(body):
            self.statement(statement, [body[i + 1 :]] + after)

    def pair(self, body: Sequence[ast.stmt]) -> None:
        """Find the idiom of two conditions that complete each other: the rest waits first, the main rank joins later.

        ``if rank != 0: barrier()`` ... ``if rank == 0: barrier()``: every rank calls it once.
        """
        waiting: dict[tuple[str, tuple[str, ...]], list[ast.If]] = {}
        for statement in body:
            for node in self._ifs(statement):
                kind = self.scope.classify(node.test)
                if not kind or kind.kind != "rank" or not kind.side or node.orelse:
                    continue
                ops = tuple(op.name for op in self.ops_of(node.body))
                if not ops:
                    continue
                other = waiting.get(("rest" if kind.side == "main" else "main", ops))
                if other:
                    partner = other.pop()
                    self.paired |= {id(node), id(partner)}
                else:
                    waiting.setdefault((kind.side, ops), []).append(node)

    @staticmethod
    def _ifs(statement: ast.stmt) -> Iterator[ast.If]:
        if isinstance(statement, ast.If):
            yield statement
        elif isinstance(statement, (ast.Try, ast.With, ast.AsyncWith)):
            for part in [statement.body] + ([statement.finalbody] if isinstance(statement, ast.Try) else []):
                for inner in part:
                    yield from Checker._ifs(inner)

    def ops_of(self, body: Iterable[ast.AST]) -> list[Op]:
        """Collectives in these statements, in order, followed through calls."""
        out: list[Op] = []
        for call in calls(body):
            out.extend(self.project.found(self.function, call))
        return out

    def implicit(self, body: Iterable[ast.AST]) -> ast.Call | None:
        """The first backward pass in these statements, where the file wraps its model for gradient synchronisation."""
        if not self.syncs:
            return None
        return next((c for c in calls(body) if isinstance(c.func, ast.Attribute) and c.func.attr == "backward"), None)

    # -- statements

    def statement(self, node: ast.stmt, after: list[Sequence[ast.stmt]]) -> None:
        """One statement, with what it encloses."""
        if isinstance(node, _FUNCTION + (ast.ClassDef,)):
            return
        if isinstance(node, ast.If):
            self.expression(node.test)
            self.branch(node, after)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self.expression(node.iter)
            self.bind_loop(node)
            self.uneven(node, node.iter)
            self.gather_in_loop(node)
            self.block(node.body, [node.body] + after)
            self.block(node.orelse, after)
        elif isinstance(node, ast.While):
            self.expression(node.test)
            kind = self.scope.classify(node.test)
            self.uneven(node, node.test)
            self.gather_in_loop(node)
            if kind:
                self.within(Condition(kind, node.lineno, text(node.test), True, True), node.body, [node.body] + after)
            else:
                self.block(node.body, [node.body] + after)
            self.block(node.orelse, after)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self.expression(item.context_expr)
            self.block(node.body, after)
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            attempt: Any = node
            self.block(attempt.body, after)
            for handler in attempt.handlers:
                self.handler(handler, after)
            self.block(attempt.orelse, after)
            self.block(attempt.finalbody, after)
        elif type(node).__name__ == "Match":
            self.match(node, after)
        else:
            self.expression(node)
            if isinstance(node, ast.Assign):
                self.scope.assign(node.targets, node.value)
            elif isinstance(node, ast.AnnAssign):
                self.scope.assign([node.target], node.value)
            elif isinstance(node, ast.AugAssign):
                before = self.scope.known.get(dotted(node.target))
                if before is None and self.scope.data(node.value):
                    self.scope.known[dotted(node.target)] = Kind("data")
            for call in calls([node]):
                op = self.project.collective(self.function, call)
                if op:
                    self.scope.agree(call, op.name)
                else:
                    for inner in self.project.found(self.function, call)[:1]:
                        self.scope.agree(call, inner.name)

    def bind_loop(self, node: Union[ast.For, ast.AsyncFor]) -> None:
        """A loop's variable is not this process's rank, whatever it is called."""
        for sub in ast.walk(node.target):
            if isinstance(sub, ast.Name):
                self.scope.known[sub.id] = UNIFORM if self.scope.rank_number(sub.id) else None

    def within(self, condition: Condition, body: Sequence[ast.stmt], after: list[Sequence[ast.stmt]]) -> None:
        """A block under a condition."""
        self.conditions.append(condition)
        try:
            self.block(body, after)
        finally:
            self.conditions.pop()

    def branch(self, node: ast.If, after: list[Sequence[ast.stmt]]) -> None:
        """An if statement, with its elif and else."""
        kind = self.scope.classify(node.test)
        alone = single_process(node.test)
        if kind is None or alone:
            for arm, mute in ((node.body, alone), (node.orelse, not alone and self.always(node.test))):
                self.muted += mute
                self.block(arm, after)
                self.muted -= mute
            return
        arms = [node.body, node.orelse]
        leave = terminates(node.body)
        tail = (
            [s for block in after for s in block]
            if isinstance(leave, ast.Return)
            else list(after[0])
            if leave is not None and after
            else []
        )
        names = [self.signature(arm) for arm in arms]
        same_ops = names[0] == names[1]
        if leave is not None and not node.orelse:
            same_ops = bool(names[0]) and names[0] == self.signature(tail)
        draws = [sorted(last(d.split(" ")[0]) for d in self.draws_in(arm)) for arm in arms]
        guarded = any(last(dotted(c.func)) in _RNG_GUARDS for arm in arms for c in calls(arm))
        suspect = not (same_ops or id(node) in self.paired)
        condition = Condition(kind, node.lineno, text(node.test), suspect, draws[0] != draws[1] and not guarded)
        self.exit(node, kind, leave, node.body, suspect, after)
        otherwise = terminates(node.orelse)
        if otherwise is not None and leave is None:
            self.exit(node, kind, otherwise, node.orelse, suspect, after)
        self.within(condition, node.body, after)
        flipped = kind._replace(side={"main": "rest", "rest": "main"}.get(kind.side, ""))
        self.within(condition._replace(kind=flipped, shown="not (%s)" % condition.shown), node.orelse, after)

    def match(self, node: Any, after: list[Sequence[ast.stmt]]) -> None:
        """A match statement on a rank: its cases are branches."""
        subject = node.subject
        cases = node.cases
        self.expression(subject)
        kind = self.scope.rank_value(subject)
        names = [[op.name for op in self.ops_of(case.body)] for case in cases]
        draws = [sorted(self.draws_in(case.body)) for case in cases]
        for case in cases:
            if kind:
                suspect = any(n != names[0] for n in names)
                self.within(
                    Condition(kind, subject.lineno, "match " + text(subject), suspect, any(d != draws[0] for d in draws)),
                    case.body,
                    after,
                )
            else:
                self.block(case.body, after)

    @staticmethod
    def always(test: ast.AST) -> bool:
        """Whether a false test means that there is one process only."""
        return distributed_guard(test)

    def draws_in(self, body: Iterable[ast.AST]) -> list[str]:
        """The draws of a block, those in audited functions that it calls included."""
        out = []
        for call in calls(body):
            target = self.project.resolve(self.function, call)
            name = self.project.draw(self.module, call) or (
                self.project.draws(target) if target is not None and target is not self.function else ""
            )
            if name:
                out.append(name)
        return out

    def signature(self, body: Sequence[ast.AST]) -> list[str]:
        """What a block does that all ranks must do alike, in order: collectives, uses of sharded models, backward passes."""
        out: list[str] = []
        for call in calls(body):
            out.extend(op.name for op in self.project.found(self.function, call))
            name = dotted(call.func)
            if name in self.module.wrapped or name.rpartition(".")[0] in self.module.wrapped or self.maybe_sharded(name):
                out.append(name)
            elif self.syncs and isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
                out.append("backward")
        return out

    def handler(self, handler: ast.ExceptHandler, after: list[Sequence[ast.stmt]]) -> None:
        """An exception handler runs only on the rank where the exception was raised."""
        caught = (
            {last(dotted(n)) for n in ast.walk(handler.type) if isinstance(n, (ast.Name, ast.Attribute))}
            if handler.type
            else set()
        )
        everywhere = bool(caught) and caught <= {
            "ImportError",
            "ModuleNotFoundError",
            "AttributeError",
            "NotImplementedError",
            "KeyboardInterrupt",
            "NameError",
        }
        ends_up = any(isinstance(s, ast.Raise) for s in handler.body)
        if not everywhere:
            for op in self.ops_of(handler.body):
                if op.kind in ("collective", "gather", "sharded") and not ends_up and "StopIteration" not in caught:
                    reason = "%s is called in the exception handler of line %d, which only the rank that failed enters"
                    self.add("collective-in-except", op.path[0][1], reason % (op.shown, handler.lineno), op)
                    break
        self.conditions, kept = [], self.conditions
        self.block(handler.body, after)
        self.conditions = kept

    # -- rules

    def exit(
        self,
        node: ast.If,
        kind: Kind,
        leave: ast.stmt | None,
        arm: Sequence[ast.stmt],
        suspect: bool,
        after: list[Sequence[ast.stmt]],
    ) -> None:
        """A return, continue or break of some ranks before a collective that the others reach."""
        if leave is None or not suspect:
            return
        rest: list[ast.stmt] = []
        if isinstance(leave, ast.Return):
            rest = [s for block in after for s in block]
        elif after:
            # The remainder of the loop's body; a break skips its later rounds as well.
            for i, block in enumerate(after):
                rest.extend(block)
                if i + 1 < len(after) and after[i + 1] and self._is_loop_body(after, i + 1):
                    if isinstance(leave, ast.Break):
                        rest.extend(after[i + 1])
                    break
        ops = [op for op in self.ops_of(rest) if self.bad(kind, op)]
        word = {ast.Return: "return", ast.Continue: "continue", ast.Break: "break"}[type(leave)]
        rule = "exit-before-collective" if kind.kind == "rank" else "exit-on-data"
        where = "%s (line %d)" % (text(node.test), node.lineno)
        if ops:
            op = ops[0]
            who = "ranks where %s leave" % where if kind.kind == "rank" else "a rank whose own data make %s true leaves" % where
            self.add(
                rule,
                leave.lineno,
                "%s: %s, and %s (%s:%d) waits for them" % (word, who, op.shown, op.path[-1][0], op.path[-1][1]),
                op,
                "warning" if kind.partly else "",
            )
            return
        backward = self.implicit(rest) if kind.kind == "data" and not self.implicit(arm) else None
        if backward is not None:
            reason = (
                "%s: a rank whose own data make %s true skips the backward pass of line %d, in which the others wait for it"
            )
            self.add(rule, leave.lineno, reason % (word, where, backward.lineno))

    @staticmethod
    def _is_loop_body(after: list[Sequence[ast.stmt]], i: int) -> bool:
        """Whether after[i] is the body of the innermost loop: block() puts a loop's whole body behind its remainder."""
        remainder, whole = after[i - 1], after[i]
        return (
            len(whole) >= len(remainder)
            and (not remainder or whole[len(whole) - len(remainder) :] == remainder)
            and bool(whole)
        )

    def bad(self, kind: Kind, op: Op) -> bool:
        """Whether a collective under such a condition leaves some of its group out."""
        if kind.kind == "data":
            return op.kind != "backward"
        if kind.member and (op.group or op.name == "full_tensor"):
            return False  # rank in ranks: ... group=: a test for membership of that group
        if not op.group:
            return True
        if kind.group and kind.group == op.group:
            return True
        if kind.axis:
            # tp_rank == 0: all_reduce(group=dp_group) has all ranks of its group: those with tp_rank 0.
            ours = axis_of(op.group)
            return ours in kind.axis.split() or (not ours and kind.axis != "local" and not kind.group)
        return not kind.group

    def expression(self, node: ast.AST) -> None:
        """The calls of one statement or expression, under the conditions around it."""
        for sub in expressions(node):
            if isinstance(sub, ast.BoolOp):
                self.short_circuit(sub)
            elif isinstance(sub, ast.IfExp):
                kind = self.scope.classify(sub.test)
                if kind:
                    self.choice(sub, kind)
            elif isinstance(sub, ast.Call):
                self.call(sub, self.conditions)

    def short_circuit(self, node: ast.BoolOp) -> None:
        """``rank == 0 and barrier()``: what follows a rank test runs on some ranks."""
        for i, value in enumerate(node.values[:-1]):
            kind = self.scope.classify(value)
            if kind and kind.kind == "rank":
                condition = Condition(kind, node.lineno, text(value), True, True)
                for call in calls(node.values[i + 1 :]):
                    self.call(call, [condition])
                return

    def choice(self, node: ast.IfExp, kind: Kind) -> None:
        """``a() if rank == 0 else b()``."""
        names = [[op.name for op in self.ops_of([arm])] for arm in (node.body, node.orelse)]
        draws = [sorted(self.draws_in([arm])) for arm in (node.body, node.orelse)]
        condition = Condition(kind, node.lineno, text(node.test), names[0] != names[1], draws[0] != draws[1])
        for call in calls([node.body, node.orelse]):
            self.call(call, [condition])

    def call(self, call: ast.Call, conditions: Sequence[Condition]) -> None:
        """One call under its conditions, innermost first."""
        ops: tuple[Op, ...] | None = None
        for condition in reversed(conditions):
            if condition.for_ops:
                if ops is None:
                    ops = self.project.found(self.function, call)
                wrong = next((op for op in ops if self.bad(condition.kind, op)), None)
                if wrong is not None:
                    self.collective(call, wrong, condition)
                    break
                if condition.kind.kind == "rank" and self.sharded(call, condition):
                    break
                if (
                    condition.kind.kind == "data"
                    and self.syncs
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr == "backward"
                ):
                    reason = "the backward pass runs only where %s (line %d), and waits for the others' gradients"
                    self.add("collective-under-data", call.lineno, reason % (condition.shown, condition.line))
                    break
        for condition in reversed(conditions):
            if condition.for_draws and condition.kind.kind == "rank" and condition.kind.axis != "pp":
                self.draw(call, condition)
                break

    def collective(self, call: ast.Call, op: Op, condition: Condition) -> None:
        """Report a collective under a condition."""
        via = (
            ""
            if len(op.path) == 1
            else " (through %s, to %s:%d)" % (", ".join(p[2] for p in op.path[:-1]), op.path[-1][0], op.path[-1][1])
        )
        if condition.kind.kind == "data":
            reason = "%s%s runs only where %s (line %d), which each rank evaluates on its own data"
            self.add("collective-under-data", call.lineno, reason % (op.shown, via, condition.shown, condition.line), op)
            return
        rule = {"gather": "gather-under-rank", "sharded": "gather-under-rank", "group": "new-group-under-rank"}.get(
            op.kind, "collective-under-rank"
        )
        reason = "%s%s must be called by every rank of its group and runs only where %s (line %d)"
        reason %= (op.shown, via, condition.shown, condition.line)
        severity = "warning" if condition.kind.partly else ""
        if op.soft:
            reason = "%s is a collective when the model is sharded (FSDP, DeepSpeed) and runs only where %s (line %d)"
            reason %= (op.shown, condition.shown, condition.line)
        self.add(rule, call.lineno, reason, op, "hint" if op.soft else severity)

    def maybe_sharded(self, name: str) -> bool:
        """Whether a call is the state_dict of a model that this file does not wrap, but could have been given wrapped."""
        head, _, op = name.rpartition(".")
        return (
            op == "state_dict"
            and head not in self.module.wrapped
            and "model" in last(head).lower().split("_")
            and bool(self.module.words & _SHARDED_MARKS)
        )

    def sharded(self, call: ast.Call, condition: Condition) -> bool:
        """A sharded model's forward or state_dict on some ranks."""
        name = dotted(call.func)
        head, _, op = name.rpartition(".")
        where = "runs only where %s (line %d)" % (condition.shown, condition.line)
        if name in self.module.wrapped:
            head, op = name, "generate"
        if head in self.module.wrapped and op == "generate":
            reason = "%s was wrapped by %s: its forward gathers parameters from all ranks and %s"
            self.add("sharded-model-under-rank", call.lineno, reason % (head, self.module.wrapped[head], where))
            return True
        if self.maybe_sharded(name):
            reason = "%s.state_dict is a collective, or this rank's shard only, when the model is sharded, and %s"
            self.add("gather-under-rank", call.lineno, reason % (head, where), severity="hint")
            return True
        if head in self.module.wrapped and op == "state_dict":
            if self.module.wrapped[head] == "FSDP":
                reason = "%s was wrapped by FSDP: its state_dict is a collective and %s"
                self.add("gather-under-rank", call.lineno, reason % (head, where))
            else:
                reason = "%s was wrapped by fully_shard: its state_dict holds this rank's shard only and %s"
                self.add("shard-saved-as-whole", call.lineno, reason % (head, where))
            return True
        return False

    def draw(self, call: ast.Call, condition: Condition) -> None:
        """Report a draw under a rank condition, if the call is one."""
        name = self.project.draw(self.module, call)
        where = "runs only where %s (line %d): the generators of the ranks part here" % (condition.shown, condition.line)
        if name:
            severity = "hint" if condition.kind.member or self.shared_later(call) else ""
            self.add(
                "rng-under-rank", call.lineno, "%s draws from the default generator and %s" % (name, where), severity=severity
            )
            return
        target = self.project.resolve(self.function, call)
        if target is not None and target is not self.function:
            inner = self.project.draws(target)
            if inner:
                reason = "%s calls %s, which draws from the default generator, and %s"
                self.add("rng-under-rank", call.lineno, reason % (dotted(call.func), inner, where), severity="hint")

    def shared_later(self, call: ast.Call) -> bool:
        """Whether what was drawn is broadcast in this function: the value is then shared, though the state has forked."""
        return any(op.name.startswith(("broadcast", "scatter")) for op in self.ops_of(self.function.body))

    def uneven(self, node: Union[ast.For, ast.AsyncFor, ast.While], source: ast.AST) -> None:
        """A loop over this rank's own data with a collective in it."""
        ops = [op for op in self.ops_of(node.body) if op.kind == "collective" and not op.group]
        if not ops or self.report.evened:
            return
        if isinstance(node, (ast.For, ast.AsyncFor)):
            iterated = text(source)
            names = {last(n).lower() for n in names_in(source)}
            own = any(("loader" in n or n in ("dataset", "data_iter", "train_iter", "stream")) for n in names)
            capped = any(
                isinstance(c, ast.Call) and last(dotted(c.func)) in ("zip", "islice", "range", "cycle")
                for c in ast.walk(source)
            )
            if own and not capped:
                reason = "the loop over %s holds %s (line %d), and nothing here makes the ranks' numbers of batches equal"
                self.add("uneven-loop", node.lineno, reason % (iterated, ops[0].shown, ops[0].path[0][1]), ops[0])
            return
        tested = names_in(source)
        own = any(w in last(n).lower() for n in tested for w in ("loader", "has_next", "data_iter", "iterator", "queue"))
        fetched = {
            dotted(t)
            for inner in inside(node.body)
            if isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Call) and dotted(inner.value.func) == "next"
            for t in inner.targets
        }
        if own or tested & fetched:
            reason = "the loop goes on while %s, which is this rank's own, and holds %s (line %d)"
            self.add("uneven-loop", node.lineno, reason % (text(source), ops[0].shown, ops[0].path[0][1]), ops[0])
            return
        for inner in inside(node.body):
            if isinstance(inner, ast.Try):
                fetches = any(isinstance(c.func, ast.Name) and c.func.id == "next" for c in calls(inner.body))
                stops = any(
                    h.type is not None and "StopIteration" in text(h.type) and terminates(h.body) is not None
                    for h in inner.handlers
                )
                if fetches and stops:
                    reason = "the loop ends when this rank's iterator does and holds %s (line %d)"
                    self.add("uneven-loop", node.lineno, reason % (ops[0].shown, ops[0].path[0][1]), ops[0])
                    return

    def gather_in_loop(self, node: Union[ast.For, ast.AsyncFor, ast.While]) -> None:
        """A gather of the full state inside a loop that trains."""
        trains = any(isinstance(c.func, ast.Attribute) and c.func.attr == "backward" for c in calls(node.body))
        if not trains:
            return
        for call in calls(node.body):
            for op in self.project.found(self.function, call):
                if op.kind != "gather":
                    continue
                shown = " ".join([p[2] for p in op.path] + [text(call, 400)]).lower()
                if op.name == "full_tensor" and (
                    "_norm" in shown or not any(w in shown for w in ("save", "state", "ckpt", "checkpoint", "ema", "param"))
                ):
                    continue
                reason = "%s gathers the full state inside the training loop of line %d: every rank waits for it"
                self.add("gather-in-loop", call.lineno, reason % (op.shown, node.lineno), op)
                return

    def add(self, rule: str, line: int, reason: str, op: Op | None = None, severity: str = "") -> None:
        """Report a place, with the way to the collective that it is about."""
        if self.muted:
            return
        path = op.path if op is not None and len(op.path) > 1 else ()
        if not severity and op is not None and op.maybe and _RULE[rule].severity == "error":
            severity = "warning"
        self.report.add(self.module, Finding(self.module.shown, line, rule, severity or _RULE[rule].severity, reason, path))


# ---------------------------------------------------------------------------
# Rules over whole files.


def finding(module: Module, node: ast.expr, rule: str, reason: str, severity: str = "") -> Finding:
    """A finding at a node, with the rule's severity unless another is given."""
    return Finding(module.shown, node.lineno, rule, severity or _RULE[rule].severity, reason)


def check_wrappers(project: Project, report: Report) -> None:
    """FSDP without a group in a project that makes several."""
    several = ""
    for module in project.modules:
        if not module.words & {"new_group", "init_device_mesh", "DeviceMesh", "initialize_model_parallel"}:
            continue
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call) or several:
                continue
            word = last(dotted(node.func))
            ranks = node.args[0] if node.args else keyword(node, "ranks")
            if word == "new_group" and ranks is not None and not is_const(ranks, None):
                several = "new_group at %s:%d" % (module.shown, node.lineno)
            elif word in ("init_device_mesh", "DeviceMesh"):
                shape = node.args[1] if len(node.args) > 1 else keyword(node, "mesh_shape", "mesh")
                dims = keyword(node, "mesh_dim_names")
                if any(isinstance(n, (ast.Tuple, ast.List)) and len(n.elts) > 1 for n in (shape, dims)):
                    several = "%s at %s:%d" % (word, module.shown, node.lineno)
            elif word == "initialize_model_parallel":
                several = "%s at %s:%d" % (word, module.shown, node.lineno)
    if not several:
        return
    for module in project.modules:
        for node in ast.walk(module.tree) if module.words & _WRAPPERS else ():
            if not isinstance(node, ast.Call):
                continue
            word, arguments = last(dotted(node.func)), node.args
            if word == "partial" and node.args and last(dotted(node.args[0])) in _WRAPPERS:
                word, arguments = last(dotted(node.args[0])), node.args[1:]
            if (
                word not in _WRAPPERS
                or any(kw.arg is None for kw in node.keywords)
                or any(isinstance(a, ast.Starred) for a in arguments)
            ):
                continue
            group = keyword(node, "process_group", "device_mesh", "mesh")
            if group is None and word != "fully_shard" and len(arguments) > 1:
                group = arguments[1]
            if group is None or is_const(group, None):
                reason = (
                    "%s has no process_group or mesh and so shards over all ranks, while the project makes several groups (%s)"
                )
                report.add(module, finding(module, node, "fsdp-without-group", reason % (word, several)))


def check_noise(project: Project, report: Report) -> None:
    """Noise without a generator in files that speak of sequence parallelism."""
    for module in project.modules:
        marks = sorted(w for w in module.words if any(m in w.lower() for m in _SP_MARKS))
        if not marks:
            continue
        for function in module.functions:
            shares = [c for c in calls(function.body) if last(dotted(c.func)).startswith(("broadcast", "scatter"))]
            shared = {name for call in shares for argument in call.args for name in names_in(argument)}
            for node in inside(function.body):
                if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) or node.value is None:
                    continue
                targets: Sequence[ast.expr] = []
                if not isinstance(node, ast.Return):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(dotted(t) in shared for t in targets):
                    continue
                what = " ".join([text(t) for t in targets] + [function.name]).lower()
                if not any(w in what for w in ("noise", "latent", "eps")):
                    continue
                for call in calls([node.value]):
                    name = project.draw(module, call)
                    if last(name) in ("randn", "randn_like", "normal", "normal_"):
                        # The function itself speaks of it, or only its file does.
                        severity = "warning" if project.words(function) & set(marks) else "hint"
                        reason = (
                            "%s draws noise from this rank's default generator in a file that splits sequences "
                            "over ranks (%s): each rank gets other noise, or copies of it"
                        )
                        report.add(
                            module, finding(module, call, "noise-without-generator", reason % (name, marks[0]), severity)
                        )


def check_ema(project: Project, report: Report) -> None:
    """EMA weights that are saved without a gather where models are sharded."""
    if not project.sharded:
        return
    for module in project.modules:
        if not any("ema" in word.lower().split("_") for word in module.words):
            continue
        for function in module.functions:
            words = {last(dotted(c.func)) for c in calls(function.body)}
            gathers = bool(
                words & (_GATHER_METHODS | _DCP_STATE | {"state_dict_type", "gather", "all_gather", "all_gather_object"})
            ) or any(keyword(c, "full_state_dict") is not None for c in calls(function.body))
            if gathers or any(project.collective(function, c) for c in calls(function.body)):
                continue
            for call in calls(function.body):
                if module.canonical(dotted(call.func)) not in (
                    "torch.save",
                    "safetensors.torch.save_file",
                    "safetensors.torch.save_model",
                ):
                    continue
                what = names_in(call.args[0]) if call.args else set()
                into = (
                    text(call.args[1], 400)
                    if len(call.args) > 1
                    else text(keyword(call, "f", "filename") or ast.Constant(value=""), 400)
                )
                if "rank" in into.lower():
                    continue  # one file a rank: a sharded save
                if any("ema" in part.split("_") for n in what for part in n.lower().split(".")):
                    reason = (
                        "%s writes %s, which is this rank's shard only when the model is sharded, and nothing in %s gathers it"
                    )
                    report.add(
                        module,
                        finding(
                            module, call, "ema-from-shard", reason % (dotted(call.func), text(call.args[0]), function.name)
                        ),
                    )


# ---------------------------------------------------------------------------
# The report.


class Report:
    """Collects findings, each place once a rule."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self.findings: dict[tuple[str, int, str], Finding] = {}
        self.ignored = 0
        self.truncated = False
        words = set().union(*(m.words for m in modules)) if modules else set()
        # Anything here makes ranks see equally many batches, or is a sign that somebody thought of it.
        self.evened = bool(words & _EVEN_WORDS)

    def add(self, module: Module, finding: Finding) -> None:
        """Note a finding, unless its line says ``# parity: ignore``."""
        line = module.lines[finding.line - 1] if 0 < finding.line <= len(module.lines) else ""
        key = (finding.file, finding.line, finding.rule)
        if "# parity: ignore" in line:
            self.ignored += 1
        elif key not in self.findings:
            if len(self.findings) >= MAX_FINDINGS:
                self.truncated = True
            else:
                self.findings[key] = finding


def audit(roots: Sequence[str]) -> dict[str, object]:
    """Audit the Python files below the roots (folders or files).

    Returns the JSON document: ``findings`` sorted by file, line and rule;
    ``errors`` for files that could not be parsed; ``skipped`` for files that were
    not read. Raises nothing for what a file holds.
    """
    skipped: list[Trouble] = []
    errors: list[Trouble] = []
    modules: list[Module] = []
    base = roots[0] if len(roots) == 1 and os.path.isdir(roots[0]) else ""
    paths = discover(roots, skipped)
    for path in paths:
        got = parse(path, os.path.relpath(path, base) if base else path)
        if isinstance(got, Trouble):
            errors.append(got)
        else:
            modules.append(got)
    report = Report(modules)
    project = Project(modules)
    for module in modules if project.speaks_of_ranks else ():
        for function in module.functions:
            try:
                Checker(project, function, report).run()
            except RecursionError:
                errors.append(
                    Trouble(
                        module.shown,
                        getattr(function.node, "lineno", 1),
                        "%s is nested too deeply to be audited" % function.name,
                    )
                )
    check_wrappers(project, report)
    check_noise(project, report)
    check_ema(project, report)
    order = sorted(report.findings.values(), key=lambda f: (f.file, f.line, f.rule))
    return {
        "schema": SCHEMA,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "files": len(modules),
        "findings": [
            {
                "file": clean(f.file),
                "line": f.line,
                "rule": f.rule,
                "pattern": _RULE[f.rule].pattern,
                "severity": f.severity,
                "reason": clean(f.reason),
                "path": [{"file": clean(file), "line": line, "call": call} for file, line, call in f.path],
            }
            for f in order
        ],
        "errors": [{"file": clean(t.file), "line": t.line, "reason": clean(t.reason)} for t in errors],
        "skipped": [{"file": clean(t.file), "line": t.line, "reason": clean(t.reason)} for t in skipped],
        "ignored": report.ignored,
        "truncated": report.truncated,
    }


def clean(name: str) -> str:
    """A name with undecodable bytes replaced, so that it can be JSON."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the audit of the given folders or files as JSON; 0 also with findings, 2 for a usage error."""
    parser = argparse.ArgumentParser(
        prog="source_audit", description="audit Python sources for collectives, draws and saves that ranks do not share"
    )
    parser.add_argument("roots", nargs="*", metavar="DIR", help="folders or files")
    parser.add_argument("--rules", action="store_true", help="print the table of rules and exit")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # of the audited code: invalid escapes and the like
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4000))
    if args.rules:
        json.dump({"schema": SCHEMA, "rules": [rule._asdict() for rule in RULES]}, sys.stdout)
    elif not args.roots:
        parser.error("no folder given")
    else:
        json.dump(audit(args.roots), sys.stdout)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
