"""Runs of two processes (gloo, on the CPU): folders, mesh coordinates, shards and random states."""

import json
import multiprocessing
import socket
import traceback

import numpy as np
import pytest
import torch
from tiny_models import manifest_of, read
from torch import nn

from parity_dump.torch import Dumper


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(work, out, port, rank, world, failures):
    """Join the group and run ``work(rank, out)``; what goes wrong is handed to the parent."""
    import os

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    try:
        torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
        work(rank, out)
        torch.distributed.destroy_process_group()
    except BaseException:
        failures.put(f"rank {rank}: {traceback.format_exc()}")


def two_processes(work, out):
    context = multiprocessing.get_context("spawn")
    failures = context.Queue()
    port = free_port()
    processes = [context.Process(target=start, args=(work, out, port, r, 2, failures)) for r in range(2)]
    for p in processes:
        p.start()
    for p in processes:
        p.join(300)
        if p.is_alive():
            p.kill()
    assert failures.empty(), failures.get()
    assert [p.exitcode for p in processes] == [0, 0]


class Block(nn.Module):
    """A residual MLP whose parts have the names that decoders give them."""

    def __init__(self):
        super().__init__()
        self.norm, self.up_proj, self.down_proj = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down_proj(torch.relu(self.up_proj(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.emb = nn.Embedding(20, 8)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(8)

    def forward(self, input_ids):
        x = self.emb(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


IDS = torch.tensor([[1, 2, 3, 4]])


def tensor_parallel(rank, out):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = Model()
    plan = {"up_proj": ColwiseParallel(use_local_output=False), "down_proj": RowwiseParallel()}
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    with torch.no_grad(), Dumper(model, out):
        model(IDS)


def test_tensor_parallel_ranks_say_which_columns_they_hold(tmp_path):
    two_processes(tensor_parallel, tmp_path)
    whole, model = tmp_path / "whole", Model()  # a run of one process is the witness
    with torch.no_grad(), Dumper(model, whole):
        model(IDS)
    ranks = [tmp_path / f"rank_{r:02d}" for r in (0, 1)]
    parts = [read(r) for r in ranks]
    for r, folder in enumerate(ranks):
        m = manifest_of(folder)
        assert m["rank"]["index"] == r and m["rank"]["world"] == 2 and m["rank"]["tp"] == [r, 2]
        shards = {t["name"]: t.get("shard") for t in m["tensors"]}
        assert shards["layer_01.mlp_up"] == {"index": r, "count": 2, "kind": "concat", "axis": "intermediate"}
        assert shards["layer_01"] is None, "after the all-reduce every rank has the whole stream"
    one = read(whole)
    joined = np.concatenate([p["layer_01.mlp_up"] for p in parts], axis=-1)
    np.testing.assert_allclose(joined, one["layer_01.mlp_up"], rtol=1e-5, atol=1e-6)
    for p in parts:
        np.testing.assert_allclose(p["layer_01"], one["layer_01"], rtol=1e-5, atol=1e-6)


def forked_noise(rank, out):
    """Each step draws noise; rank 1 draws once more before step 1, which is how random states fork."""
    torch.manual_seed(7)
    model = Model()
    for step in range(3):
        if rank == 1 and step == 1:
            torch.rand(1)
        with torch.no_grad(), Dumper(model, out, step=step, shards={"layer_*": {"kind": "replica", "index": rank, "count": 2}}):
            model(IDS)
        torch.rand(3)


def test_a_random_state_that_forks_is_seen_at_its_step(tmp_path):
    two_processes(forked_noise, tmp_path)
    marks = [[manifest_of(tmp_path / f"step_{s:04d}" / f"rank_{r:02d}")["rank"]["rng"] for r in (0, 1)] for s in range(3)]
    assert marks[0][0] == marks[0][1], "both ranks begin alike"
    assert marks[1][0] != marks[1][1] and marks[2][0] != marks[2][1], "from step 1 on they differ"
    assert len({m[0] for m in marks}) == 3, "each step draws"


def sequence_parallel(rank, out):
    """Each rank holds half of the tokens; the mesh has names of other libraries for its dimensions."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("data", "sequence"))
    model = Model()
    shard = {"axis": "token", "index": rank, "count": 2, "kind": "concat"}
    half = IDS[:, 2 * rank : 2 * rank + 2]
    with torch.no_grad(), Dumper(model, out, mesh=mesh, shards={"*": shard}):
        model(half)


def test_sequence_parallel_ranks_name_their_tokens(tmp_path):
    two_processes(sequence_parallel, tmp_path)
    for r in (0, 1):
        m = manifest_of(tmp_path / f"rank_{r:02d}")
        assert m["rank"]["dp"] == [0, 1] and m["rank"]["sp"] == [r, 2]
        layer = next(t for t in m["tensors"] if t["name"] == "layer_01")
        assert layer["shard"] == {"axis": "token", "index": r, "count": 2, "kind": "concat"}


def failing(rank, out):
    model = Model()
    if rank == 1:
        model.layers[1].down_proj.forward = lambda x: json.loads("{")
    try:
        with torch.no_grad(), Dumper(model, out):
            model(IDS)
    except json.JSONDecodeError:
        assert rank == 1
    else:
        assert rank == 0


def test_a_rank_that_fails_is_incomplete_and_the_other_is_not(tmp_path):
    two_processes(failing, tmp_path)
    assert [manifest_of(tmp_path / f"rank_{r:02d}")["complete"] for r in (0, 1)] == [True, False]


def test_a_run_of_one_process_has_no_rank_folder(tmp_path):
    model = Model()
    with torch.no_grad(), Dumper(model, tmp_path):
        model(IDS)
    assert (tmp_path / "dump.json").exists() and manifest_of(tmp_path)["rank"]["world"] == 1


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("model.layers.3.self_attn.q_proj", "concat"),
        ("model.layers.3.self_attn.o_proj", "replica"),
        ("model.layers.3.mlp.gate", None),
        ("lm_head", "replica"),
    ],
)
def test_shards_follow_from_a_transformers_plan(path, want):
    from parity_dump.torch_ranks import shard_from_plan

    plan = {
        "model.layers.*.self_attn.q_proj": "colwise",
        "model.layers.*.self_attn.o_proj": "rowwise",
        "lm_head": "colwise_gather_output",
    }
    assert shard_from_plan(path, plan) == want
