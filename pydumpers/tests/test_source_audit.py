"""The source audit on small programs: what it must name, and what it must leave alone.

In the sources below ``# ! rule`` marks a line that the audit must name, once for
each rule; every other line must stay silent.
"""

import ast
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from parity_dump import source_audit as sa

FILE = pathlib.Path(sa.__file__)

HEAD = """\
import math
import os
import random
import time
import numpy as np
import torch
import torch.nn.functional as F
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard, StateDictType
from torch.nn.parallel import DistributedDataParallel as DDP
"""


def audited(tmp_path, files):
    """Write the files and audit their folder."""
    for name, source in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + textwrap.dedent(source))
    return sa.audit([str(tmp_path)])


def marked(files):
    """The (file, line, rule) triples that the sources mark."""
    out = set()
    for name, source in files.items():
        for n, line in enumerate((HEAD + textwrap.dedent(source)).splitlines(), 1):
            if "# ! " in line:
                out |= {(name, n, rule) for rule in line.split("# ! ")[1].split()}
    return out


def check(tmp_path, files):
    got = audited(tmp_path, files)
    assert got["errors"] == []
    named = {(f["file"], f["line"], f["rule"]) for f in got["findings"]}
    assert named == marked(files), "\n".join(f["reason"] for f in got["findings"])
    return got["findings"]


# Wrong programs: (what is wrong, source).
WRONG = [
    (
        "a barrier on the main rank",
        """
        def step(rank):
            if rank == 0:
                dist.barrier()  # ! collective-under-rank
    """,
    ),
    (
        "an all-reduce on the others",
        """
        def step(x):
            if dist.get_rank() != 0:
                print("here")
                dist.all_reduce(x)  # ! collective-under-rank
    """,
    ),
    (
        "each of the usual names of the main rank",
        """
        from torch.distributed import all_gather, broadcast
        def step(self, x, args, accelerator):
            if self.is_main_process:
                broadcast(x, 0)  # ! collective-under-rank
            if args.local_rank in [-1, 0]:
                all_gather([x], x)  # ! collective-under-rank
            if int(os.environ["RANK"]) == 0:
                dist.reduce(x, 0)  # ! collective-under-rank
            if not accelerator.is_local_main_process:
                accelerator.wait_for_everyone()  # ! collective-under-rank
    """,
    ),
    (
        "a flag that was computed before",
        """
        def step(x):
            rank = dist.get_rank()
            master = rank == 0
            if master:
                dist.all_reduce(x)  # ! collective-under-rank
    """,
    ),
    (
        "a flag kept in an attribute and read in another method",
        """
        class Trainer:
            def __init__(self):
                self.master = dist.get_rank() == 0
            def log(self, x):
                if self.master:
                    dist.all_reduce(x)  # ! collective-under-rank
    """,
    ),
    (
        "a flag of the module, as scripts have it",
        """
        ddp_rank = int(os.environ["RANK"])
        chief = ddp_rank == 0
        if chief:
            dist.barrier()  # ! collective-under-rank
        def f(x):
            if chief:
                dist.all_reduce(x)  # ! collective-under-rank
    """,
    ),
    (
        "a helper that tells the main rank",
        """
        def is_boss():
            return dist.get_rank() == 0
        def step(x):
            if is_boss():
                dist.all_reduce(x)  # ! collective-under-rank
    """,
    ),
    (
        "a collective two calls away",
        """
        def step(x):
            if dist.get_rank() == 0:
                report(x)  # ! collective-under-rank
        def report(x):
            print(mean(x))
        def mean(x):
            dist.all_reduce(x)
            return x / dist.get_world_size()
    """,
    ),
    (
        "a method of the same class",
        """
        class Trainer:
            def save(self):
                if dist.get_rank() == 0:
                    self.collect()  # ! collective-under-rank
            def collect(self):
                dist.all_gather_object([None], 1)
    """,
    ),
    (
        "a method of a base class",
        """
        class Base:
            def collect(self):
                dist.barrier()
        class Trainer(Base):
            def save(self, rank):
                if rank == 0:
                    self.collect()  # ! collective-under-rank
    """,
    ),
    (
        "deep in other blocks",
        """
        def step(rank, x):
            with torch.no_grad():
                for _ in range(3):
                    try:
                        if rank == 0 and x is not None:
                            dist.all_reduce(x)  # ! collective-under-rank
                    finally:
                        pass
    """,
    ),
    (
        "in the else branch",
        """
        def step(rank, x):
            if rank == 0:
                print("hello")
            else:
                dist.all_reduce(x)  # ! collective-under-rank
    """,
    ),
    (
        "different collectives in the branches",
        """
        def step(rank, x):
            if rank == 0:
                dist.broadcast(x, 0)  # ! collective-under-rank
            else:
                dist.all_reduce(x)  # ! collective-under-rank
    """,
    ),
    (
        "behind a short circuit or a choice",
        """
        def step(rank, x):
            rank == 0 and dist.barrier()  # ! collective-under-rank
            y = dist.all_reduce(x) if rank == 0 else None  # ! collective-under-rank
    """,
    ),
    (
        "a decorator that lets one rank in",
        """
        @rank_zero_only
        def log(x):
            dist.all_reduce(x)  # ! collective-under-rank
    """,
    ),
    (
        "a while loop on the main rank",
        """
        def serve(rank, x):
            while rank == 0:
                dist.broadcast(x, 0)  # ! collective-under-rank
    """,
    ),
    (
        "a match on the rank",
        """
        def step(x):
            match dist.get_rank():
                case 0:
                    dist.barrier()  # ! collective-under-rank
                case _:
                    pass
    """,
    ),
    (
        "a test for the rank where the run is distributed at all",
        """
        def step(x):
            if not dist.is_initialized() or dist.get_rank() == 0:
                dist.all_reduce(x)  # ! collective-under-rank
    """,
    ),
    (
        "the collective's own axis",
        """
        def step(tp_rank, x, tp_group):
            if tp_rank == 0:
                dist.all_reduce(x, group=tp_group)  # ! collective-under-rank
    """,
    ),
    (
        "an early return",
        """
        def save(x):
            if dist.get_rank() != 0:
                return  # ! exit-before-collective
            print("gathering")
            dist.all_gather_object([None], x)
    """,
    ),
    (
        "an early return from inside a loop",
        """
        def run(rank, items):
            for item in items:
                if rank > 0:
                    return None  # ! exit-before-collective
                print(item)
            dist.barrier()
    """,
    ),
    (
        "a continue",
        """
        def run(rank, items):
            for item in items:
                if rank == 0:
                    continue  # ! exit-before-collective
                dist.all_reduce(item)
    """,
    ),
    (
        "a break leaves later rounds out too",
        """
        def run(rank, items):
            for item in items:
                dist.all_reduce(item)
                if rank == 0:
                    break  # ! exit-before-collective
    """,
    ),
    (
        "an early return before a helper with a barrier",
        """
        def run(rank):
            if rank != 0:
                return  # ! exit-before-collective
            finish()
        def finish():
            dist.barrier()
    """,
    ),
    (
        "a NaN check of the local loss",
        """
        def step(loss, x):
            if loss.isnan():
                dist.all_reduce(x)  # ! collective-under-data
            if torch.isnan(loss).any():
                dist.barrier()  # ! collective-under-data
    """,
    ),
    (
        "a value read from the device",
        """
        def step(loss, limit):
            value = loss.item()
            if value > limit:
                dist.barrier()  # ! collective-under-data
    """,
    ),
    (
        "a clock and a coin",
        """
        def step(x, start):
            if time.time() - start > 60:
                dist.all_reduce(x)  # ! collective-under-data
            if random.random() < 0.1:
                dist.all_reduce(x)  # ! collective-under-data
    """,
    ),
    (
        "skipping a batch before a collective",
        """
        def run(batches):
            for loss in batches:
                if math.isnan(loss):
                    continue  # ! exit-on-data
                dist.all_reduce(loss)
    """,
    ),
    (
        "skipping the backward pass of a replicated model",
        """
        def run(net, batches):
            net = DDP(net)
            for x in batches:
                loss = net(x).sum()
                if not torch.isfinite(loss):
                    continue  # ! exit-on-data
                loss.backward()
    """,
    ),
    (
        "a while loop that each rank ends by itself",
        """
        def run(loss):
            while loss.item() > 1:
                dist.all_reduce(loss)  # ! collective-under-data
    """,
    ),
    (
        "a barrier in an exception handler",
        """
        def run(x):
            try:
                f(x)
            except RuntimeError:
                dist.barrier()  # ! collective-in-except
    """,
    ),
    (
        "a loop over a loader that nothing makes even",
        """
        def evaluate(loader):
            for x in loader:  # ! uneven-loop
                dist.all_reduce(x)
    """,
    ),
    (
        "a loop that ends with this rank's iterator",
        """
        def evaluate(it):
            while True:  # ! uneven-loop
                try:
                    x = next(it)
                except StopIteration:
                    break
                dist.all_reduce(x)
    """,
    ),
    (
        "a group that one rank makes",
        """
        def setup(rank):
            if rank < 4 and rank == 0:
                return dist.new_group([0, 1])  # ! new-group-under-rank
    """,
    ),
    (
        "a gather under the main rank",
        """
        def save(model, rank):
            if rank == 0:
                sd = {k: v.full_tensor() for k, v in model.state_dict().items()}  # ! gather-under-rank
                torch.save(sd, "x.pt")
    """,
    ),
    (
        "the full state of FSDP under the main rank",
        """
        def save(net, rank):
            model = FSDP(net)
            if rank == 0:
                torch.save(model.state_dict(), "x.pt")  # ! gather-under-rank
    """,
    ),
    (
        "torch.distributed.checkpoint on one rank",
        """
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_model_state_dict
        def save(model, rank):
            if rank == 0:
                dcp.save({}, checkpoint_id="x")  # ! gather-under-rank
                get_model_state_dict(model)  # ! gather-under-rank
    """,
    ),
    (
        "DeepSpeed's own save on one rank",
        """
        import deepspeed
        def save(model_engine, rank):
            if rank == 0:
                model_engine.save_checkpoint("out")  # ! gather-under-rank
    """,
    ),
    (
        "a full gather in the training loop",
        """
        def full_state(model):
            return {k: v.full_tensor() for k, v in model.state_dict().items()}
        def train(model, batches, rank):
            for i, x in enumerate(batches):
                model(x).sum().backward()
                if i % 100 == 0:
                    sd = full_state(model)  # ! gather-in-loop
                    if rank == 0:
                        torch.save(sd, "x.pt")
    """,
    ),
    (
        "a sharded model sampled on one rank",
        """
        def run(net, rank, x):
            model = FSDP(net)
            if rank == 0:
                model.generate(x)  # ! sharded-model-under-rank
                model(x)  # ! sharded-model-under-rank
    """,
    ),
    (
        "a shard saved as the whole",
        """
        def run(model, rank):
            fully_shard(model)
            if rank == 0:
                torch.save(model.state_dict(), "x.pt")  # ! shard-saved-as-whole
    """,
    ),
    (
        "FSDP on the world beside other groups",
        """
        def run(net):
            sp_group = dist.new_group([0, 1])
            return FSDP(net, use_orig_params=True)  # ! fsdp-without-group
    """,
    ),
    (
        "fully_shard without a mesh beside a mesh of two dims",
        """
        from torch.distributed.device_mesh import init_device_mesh
        def run(net):
            mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))
            fully_shard(net)  # ! fsdp-without-group
    """,
    ),
    (
        "draws on one rank",
        """
        def step(rank, x):
            if rank == 0:
                a = torch.randn(3)  # ! rng-under-rank
                b = np.random.rand()  # ! rng-under-rank
                c = random.choice([1, 2])  # ! rng-under-rank
                x.normal_()  # ! rng-under-rank
                d = F.dropout(x, 0.1)  # ! rng-under-rank
                e = torch.multinomial(x, 1)  # ! rng-under-rank
                f = torch.randint(0, 3, (1,)) + torch.randperm(3)  # ! rng-under-rank
    """,
    ),
    (
        "a draw in a helper that one rank calls",
        """
        def sample(model):
            return model(torch.randn(4))
        def step(rank, model):
            if rank == 0:
                sample(model)  # ! rng-under-rank
    """,
    ),
    (
        "noise in sequence-parallel code",
        """
        def sample(shape, sp_size, sp_group):
            latents = torch.randn(shape[0], shape[1] // sp_size)  # ! noise-without-generator
            return latents
    """,
    ),
    (
        "EMA written from a shard",
        """
        def save(ema_model, net):
            model = FSDP(net)
            torch.save(ema_model.state_dict(), "ema.pt")  # ! ema-from-shard
    """,
    ),
    (
        "the state of a model that may be sharded",
        """
        def save(model, rank):
            if rank == 0:
                torch.save(model.state_dict(), "x.pt")  # ! gather-under-rank
    """,
    ),
    (
        "the full state type on one rank, and in the loop",
        """
        def train(net, batches, rank):
            for x in batches:
                net(x).sum().backward()
                with FSDP.state_dict_type(net, StateDictType.FULL_STATE_DICT):  # ! gather-in-loop
                    state = net.state_dict()
            if rank == 0:
                with FSDP.state_dict_type(net, StateDictType.FULL_STATE_DICT):  # ! gather-under-rank
                    state = net.state_dict()
    """,
    ),
    (
        "a part of the ranks, by comparison",
        """
        def step(rank, world_size, x):
            if rank < world_size // 2:
                dist.all_reduce(x)  # ! collective-under-rank
            if rank % 2 == 0:
                dist.all_reduce(x)  # ! collective-under-rank
            if rank == world_size - 1:
                dist.barrier()  # ! collective-under-rank
            if not dist.get_rank():
                dist.barrier()  # ! collective-under-rank
    """,
    ),
    (
        "other frameworks",
        """
        import horovod.torch as hvd
        import torch_xla.core.xla_model as xm
        from jax.experimental import multihost_utils
        import jax
        def step(x):
            if hvd.rank() == 0:
                hvd.allreduce(x)  # ! collective-under-rank
            if xm.is_master_ordinal():
                xm.rendezvous("saved")  # ! collective-under-rank
            if jax.process_index() == 0:
                multihost_utils.sync_global_devices("done")  # ! collective-under-rank
    """,
    ),
    (
        "wrappers of other packages, by their names",
        """
        from somewhere.dist_utils import all_reduce_mean
        def step(rank, x, utils):
            if rank == 0:
                all_reduce_mean(x)  # ! collective-under-rank
                utils.all_gather_with_grad(x)  # ! collective-under-rank
    """,
    ),
    (
        "Lightning's all_gather",
        """
        from lightning import LightningModule
        class Net(LightningModule):
            def on_train_end(self):
                if self.trainer.is_global_zero:
                    self.all_gather(self.x)  # ! collective-under-rank
    """,
    ),
    (
        "a dropout module on one rank",
        """
        class Net:
            def forward(self, x, rank):
                if rank == 0:
                    x = self.attn_dropout(x)  # ! rng-under-rank
                return x
    """,
    ),
    (
        "a loss with a bound, an empty batch, no batch",
        """
        def run(batches, model):
            for batch in batches:
                if batch is None:
                    continue  # ! exit-on-data
                if len(batch) == 0 or batch.shape[0] == 0:
                    continue  # ! exit-on-data
                loss = model(batch)
                if loss > 100.0:
                    continue  # ! exit-on-data
                dist.all_reduce(loss)
    """,
    ),
    (
        "a while loop over this rank's own data",
        """
        def run(loader, it):
            while loader.has_next():  # ! uneven-loop
                dist.all_reduce(loader.take())
            x = next(it, None)
            while x is not None:  # ! uneven-loop
                dist.all_reduce(x)
                x = next(it, None)
    """,
    ),
]

# Right programs: (why it is right, source).
RIGHT = [
    (
        "logging on the main rank",
        """
        def log(rank, loss):
            dist.all_reduce(loss)
            if rank == 0:
                print(loss.item())
    """,
    ),
    (
        "gathered by all, written by one",
        """
        def save(model, rank):
            sd = {k: v.full_tensor() for k, v in model.state_dict().items()}
            if rank == 0:
                torch.save(sd, "x.pt")
            dist.barrier()
    """,
    ),
    (
        "FSDP's state under its context, written by one",
        """
        def save(net, rank):
            model = FSDP(net)
            with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):
                sd = model.state_dict()
            if rank == 0:
                torch.save(sd, "x.pt")
    """,
    ),
    (
        "guards that are the same on all ranks",
        """
        def mean(x, world_size, args):
            if not dist.is_available() or not dist.is_initialized():
                return x
            if world_size > 1:
                dist.all_reduce(x)
            if args.local_rank != -1:
                dist.barrier()
            if args.distributed and dist.get_world_size() > 1:
                dist.barrier()
            return x
    """,
    ),
    (
        "the same collective in both branches",
        """
        def share(rank, x, y):
            if rank == 0:
                dist.broadcast(x, src=0)
            else:
                dist.broadcast(y, src=0)
            if rank == 0:
                dist.broadcast_object_list([x], 0)
                return x
            dist.broadcast_object_list([None], 0)
    """,
    ),
    (
        "first one rank, then the others",
        """
        def load(rank, path):
            if rank != 0:
                dist.barrier()
            data = open(path)
            if rank == 0:
                dist.barrier()
            return data
    """,
    ),
    (
        "the older form of the same, with -1 for a single process",
        """
        def load(args):
            if args.local_rank not in [-1, 0]:
                dist.barrier()
            build()
            if args.local_rank == 0:
                dist.barrier()
        def build():
            pass
    """,
    ),
    (
        "one rank of another axis, with all of its own group",
        """
        def step(tp_rank, pp_rank, x, dp_group):
            if tp_rank == 0:
                dist.all_reduce(x, group=dp_group)
            if pp_rank == 0 and tp_rank == 0:
                dist.all_reduce(x, group=dp_group)
    """,
    ),
    (
        "members of a group call a collective of that group",
        """
        def step(rank, ranks, x, group):
            if rank in ranks:
                dist.all_reduce(x, group=group)
    """,
    ),
    (
        "all ranks are let in where they are needed",
        """
        def save(rank, sharded, model):
            if sharded or rank == 0:
                collect(model)
        def collect(model):
            dist.barrier()
    """,
    ),
    (
        "a loop over ranks has no rank of its own",
        """
        def show(world_size, x):
            for rank in range(world_size):
                if rank == 0:
                    dist.broadcast(x, rank)
    """,
    ),
    (
        "point to point is not a collective",
        """
        def ring(rank, x):
            if rank == 0:
                dist.send(x, 1)
            elif rank == 1:
                dist.recv(x, 0)
    """,
    ),
    (
        "tensor methods of the same names",
        """
        def pick(rank, x, i):
            if rank == 0:
                y = x.gather(1, i)
                z = x.scatter(1, i, y)
                return z.reduce()
    """,
    ),
    (
        "the rank of a LoRA is not a rank of a process",
        """
        class LoraLinear:
            def __init__(self, rank):
                if rank > 0:
                    self.a = torch.nn.Parameter(torch.randn(rank, 4))
    """,
    ),
    (
        "agreed before the branch",
        """
        def step(loss):
            bad = torch.isnan(loss).float()
            dist.all_reduce(bad, op=dist.ReduceOp.MAX)
            if bad.item() > 0:
                dist.barrier()
    """,
    ),
    (
        "agreed through a helper",
        """
        def step(loss):
            value = mean(loss)
            if value.item() > 3:
                dist.barrier()
        def mean(x):
            dist.all_reduce(x)
            return x
    """,
    ),
    (
        "agreed by a gather, then looked at one by one",
        """
        def done(flag, n):
            flags = [torch.zeros(1) for _ in range(n)]
            dist.all_gather(flags, flag)
            total = sum(bool(f.item()) for f in flags)
            while total < n:
                dist.barrier()
    """,
    ),
    (
        "the clipped norm is the same on all ranks",
        """
        def step(model, loss):
            net = DDP(model)
            norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            if not torch.isfinite(norm):
                dist.barrier()
    """,
    ),
    (
        "counters",
        """
        def run(step, every, x):
            if step % every == 0:
                dist.all_reduce(x)
    """,
    ),
    (
        "a raise ends the job",
        """
        def run(rank, x):
            if rank == 0 and x is None:
                raise ValueError("no data")
            dist.barrier()
    """,
    ),
    (
        "a loop over a loader with a distributed sampler",
        """
        from torch.utils.data import DataLoader, DistributedSampler
        def evaluate(data):
            loader = DataLoader(data, sampler=DistributedSampler(data))
            for x in loader:
                dist.all_reduce(x)
    """,
    ),
    (
        "an even number of steps",
        """
        def evaluate(loader):
            for i, x in zip(range(10), loader):
                dist.all_reduce(x)
    """,
    ),
    (
        "an import that fails is the same everywhere",
        """
        try:
            import apex
        except ImportError:
            dist.barrier()
    """,
    ),
    (
        "FSDP with its group",
        """
        def run(net, kw, dp_group):
            sp_group = dist.new_group([0, 1])
            a = FSDP(net, process_group=dp_group)
            b = FSDP(net, dp_group)
            c = FSDP(net, **kw)
    """,
    ),
    (
        "one group for all",
        """
        def run(net):
            cpu = dist.new_group(backend="gloo")
            return FSDP(net)
    """,
    ),
    (
        "draws that both sides make",
        """
        def step(rank):
            if rank == 0:
                x = torch.randn(3)
            else:
                x = torch.randn(3)
            return x
    """,
    ),
    (
        "draws from a generator of its own",
        """
        def step(rank, g):
            own = np.random.default_rng(0)
            if rank == 0:
                a = torch.randn(3, generator=g)
                b = own.normal()
                c = random.Random(0).random()
    """,
    ),
    (
        "a forked state",
        """
        def step(rank, model):
            if rank == 0:
                with torch.random.fork_rng():
                    x = torch.randn(3)
    """,
    ),
    (
        "noise with a shared generator, or broadcast",
        """
        def sample(shape, sp_group, generator):
            latents = torch.randn(shape, generator=generator)
            return latents
        def other(shape, sp_group):
            noise = torch.randn(shape)
            dist.broadcast(noise, 0, group=sp_group)
            return noise
    """,
    ),
    (
        "noise without sequence parallelism",
        """
        def sample(shape):
            noise = torch.randn(shape)
            return noise
    """,
    ),
    (
        "EMA gathered before it is written, or written by every rank",
        """
        def save(ema, net, rank):
            model = FSDP(net)
            full = {k: v.full_tensor() for k, v in ema.items()}
            if rank == 0:
                torch.save(full, "ema.pt")
        def shards(ema, rank):
            torch.save(ema, "ema_%d.pt" % rank)
    """,
    ),
    (
        "a replicated model's state under the main rank",
        """
        def save(net, rank):
            model = DDP(net)
            if rank == 0:
                torch.save(model.module.state_dict(), "x.pt")
    """,
    ),
    (
        "code for a single process",
        """
        def generate(done, world_size, x):
            for _ in range(9):
                if world_size == 1:
                    if done.all():
                        break
                else:
                    dist.all_reduce(x)
    """,
    ),
    (
        "a function that is only defined there",
        """
        def run(rank):
            if rank == 0:
                def later(x):
                    dist.all_reduce(x)
                handler = lambda x: dist.all_reduce(x)
    """,
    ),
    (
        "the line says so",
        """
        def step(rank, x):
            if rank == 0:
                dist.all_reduce(x)  # parity: ignore
    """,
    ),
    (
        "sizes that come from the configuration",
        """
        def run(model, args, x, kernel_size):
            if len(args.layers) == 0 or kernel_size == 0:
                return
            if args.model is None:
                return
            dist.all_reduce(x)
    """,
    ),
    (
        "a loss that was reduced",
        """
        def run(batches, model):
            for batch in batches:
                loss = model(batch)
                dist.all_reduce(loss)
                if loss > 100.0:
                    continue
                dist.barrier()
    """,
    ),
    (
        "a sharded save by all, every so often",
        """
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_model_state_dict
        def train(model, batches):
            for x in batches:
                model(x).sum().backward()
                dcp.async_save({"model": get_model_state_dict(model)}, checkpoint_id="x")
    """,
    ),
    (
        "rank below the number of ranks",
        """
        def run(rank, world_size, x):
            if rank < world_size and rank >= 0:
                dist.all_reduce(x)
    """,
    ),
]


@pytest.mark.parametrize(("what", "source"), WRONG, ids=[w for w, _ in WRONG])
def test_names_what_is_wrong(tmp_path, what, source):
    assert check(tmp_path, {"train.py": source}), what


@pytest.mark.parametrize(("why", "source"), RIGHT, ids=[w for w, _ in RIGHT])
def test_leaves_right_code_alone(tmp_path, why, source):
    assert check(tmp_path, {"train.py": source}) == [], why


def test_every_rule_is_shown_by_a_wrong_program():
    shown = {rule for _, source in WRONG for _, _, rule in marked({"x": source})}
    assert shown == {rule.id for rule in sa.RULES}


def test_follows_calls_into_other_files_and_tells_the_way(tmp_path):
    findings = check(
        tmp_path,
        {
            "pkg/__init__.py": "",
            "pkg/train.py": """
                from .utils.sync import report
                from pkg.utils import sync
                def step(rank, x):
                    if rank == 0:
                        report(x)  # ! collective-under-rank
                        sync.report(x)  # ! collective-under-rank
            """,
            "pkg/utils/__init__.py": "",
            "pkg/utils/sync.py": """
                def report(x):
                    dist.all_reduce(x)
            """,
        },
    )
    line = len(HEAD.splitlines()) + 3
    assert [(p["file"], p["line"], p["call"]) for p in findings[0]["path"]] == [
        ("pkg/train.py", len(HEAD.splitlines()) + 6, "report"),
        ("pkg/utils/sync.py", line, "dist.all_reduce"),
    ]


def test_the_reason_names_condition_and_line(tmp_path):
    got = audited(tmp_path, {"a.py": "def f(rank, x):\n    if rank == 0:\n        dist.all_reduce(x)\n"})["findings"]
    n = len(HEAD.splitlines())
    assert got == [
        {
            "file": "a.py",
            "line": n + 3,
            "rule": "collective-under-rank",
            "pattern": "hang.asymmetric_collective",
            "severity": "error",
            "reason": f"dist.all_reduce must be called by every rank of its group and runs only where rank == 0 (line {n + 2})",
            "path": [],
        }
    ]


def test_what_cannot_be_parsed_is_told_and_the_rest_is_audited(tmp_path):
    (tmp_path / "bad.py").write_text("def f(:\n")
    (tmp_path / "null.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "two.py").write_text("print 'python 2'\n")
    (tmp_path / "deep.py").write_text("x = " + "(" * 5000 + ")" * 5000 + "\n")
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nname = '\xe9'\n")
    (tmp_path / "nonutf8.py").write_bytes(b"name = '\xe9'\n")
    (tmp_path / "good.py").write_text("import torch.distributed as dist\nif dist.get_rank() == 0:\n    dist.barrier()\n")
    got = sa.audit([str(tmp_path)])
    assert {e["file"] for e in got["errors"]} == {"bad.py", "null.py", "two.py", "deep.py", "nonutf8.py"}
    assert next(e for e in got["errors"] if e["file"] == "bad.py")["line"] == 1
    assert [(f["file"], f["line"]) for f in got["findings"]] == [("good.py", 3)]
    assert got["files"] == 2


def test_deep_but_legal_nesting_does_not_stop_the_audit(tmp_path):
    (tmp_path / "chain.py").write_text(
        "x = " + " + ".join(["y"] * 3000) + "\nimport torch.distributed as dist\nif dist.get_rank() == 0:\n    dist.barrier()\n"
    )
    got = sa.audit([str(tmp_path)])
    assert got["findings"] or got["errors"]


def test_links_special_files_and_large_files(tmp_path):
    src = tmp_path / "src"
    src.mkdir()
    (src / "a.py").write_text("import torch.distributed as dist\nif dist.get_rank() == 0:\n    dist.barrier()\n")
    (src / "loop").symlink_to(src)
    (src / "same.py").symlink_to(src / "a.py")
    (src / "gone.py").symlink_to(src / "nowhere.py")
    os.mkfifo(src / "pipe.py")
    with open(src / "huge.py", "wb") as huge:
        huge.truncate(sa.MAX_BYTES + 1)
    (src / ".venv").mkdir()
    (src / ".venv" / "b.py").write_text("def f(:\n")
    got = sa.audit([str(src)])
    assert len(got["findings"]) == 1
    assert {os.path.basename(s["file"]) for s in got["skipped"]} == {"gone.py", "pipe.py", "huge.py"}
    assert got["errors"] == []


def test_nothing_of_the_audited_code_is_imported_or_run(tmp_path):
    trap = tmp_path / "trap.txt"
    (tmp_path / "json.py").write_text(f"open({str(trap)!r}, 'w').write('ran')\n")
    (tmp_path / "main.py").write_text(f"open({str(trap)!r}, 'w').write('ran')\nimport json\n")
    done = subprocess.run(
        [sys.executable, "-I", "-", "."], input=FILE.read_bytes(), cwd=tmp_path, capture_output=True, check=True
    )
    assert json.loads(done.stdout)["files"] == 2
    assert not trap.exists()
    assert done.stderr == b""


def test_warnings_of_the_audited_code_stay_quiet(tmp_path):
    (tmp_path / "esc.py").write_text("x = '\\d'\ny = x is 'a'\n")
    done = subprocess.run([sys.executable, "-I", str(FILE), str(tmp_path)], capture_output=True, check=True)
    assert done.stderr == b""


def test_a_name_that_is_no_utf8_is_printed(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.py"
    with open(name, "w") as handle:
        handle.write("def f(:\n")
    done = subprocess.run([sys.executable, "-I", str(FILE), str(tmp_path)], capture_output=True, check=True)
    assert json.loads(done.stdout)["errors"][0]["file"] == "\ufffd.py"


def test_the_file_is_python_3_9():
    ast.parse(FILE.read_text(), feature_version=(3, 9))


def test_only_the_standard_library_is_imported():
    names = {a.name.split(".")[0] for n in ast.walk(ast.parse(FILE.read_text())) if isinstance(n, ast.Import) for a in n.names}
    names |= {
        n.module.split(".")[0] for n in ast.walk(ast.parse(FILE.read_text())) if isinstance(n, ast.ImportFrom) and n.module
    }
    assert names <= set(sys.stdlib_module_names)


def test_the_copy_that_parity_carries_is_this_file():
    copy = pathlib.Path(__file__).parents[2] / "diagnose" / "triage" / "source_audit.py"
    assert copy.read_bytes() == FILE.read_bytes()


def test_the_table_of_rules_is_printed():
    done = subprocess.run([sys.executable, "-I", str(FILE), "--rules"], capture_output=True, check=True)
    rules = json.loads(done.stdout)["rules"]
    assert [r["id"] for r in rules] == [r.id for r in sa.RULES]
    assert len({r["id"] for r in rules}) == len(rules)


def test_no_folder_is_a_usage_error():
    assert subprocess.run([sys.executable, "-I", str(FILE)], capture_output=True).returncode == 2
