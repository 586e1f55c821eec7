# SPDX-License-Identifier: Apache-2.0
"""Frameworks train a small model over tutti, two ranks on CPUs: by the line that docs/use/frameworks.md has for each.

frameworks.py NAME: starts the program of that framework as its users do, and looks at what it prints. Each program
says which class its process group has, and ends only if all ranks hold the same parameters.
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

HERE = os.path.abspath(__file__)
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "-r", "1", "-t", "1", "--standalone", "--nproc_per_node=2"]
RANKS = 2


def agree(model, name):
    """All ranks must hold the same parameters, and tutti must have carried them."""
    import torch
    import torch.distributed as dist

    mine = torch.cat([parameter.detach().reshape(-1).float() for parameter in model.parameters()])
    all_ = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_, mine)
    assert all(torch.equal(one, mine) for one in all_), "the ranks hold different parameters"
    assert bool(mine.isfinite().all()) and dist.get_world_size() == RANKS
    carrier = type(dist.group.WORLD).__name__
    assert carrier == "TuttiGroup", f"{carrier} carried it, as {dist.get_backend()}"
    print(f"{name}: rank {dist.get_rank()} agrees, {dist.get_backend()} by {carrier}", flush=True)


def data(rank):
    import torch

    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(32, 4, generator=generator)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


def use_lightning():
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.strategies import DDPStrategy

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, _):
            return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

        def on_train_end(self):
            agree(self.layer, "lightning")

    trainer = Trainer(accelerator="cpu", devices=RANKS, max_epochs=1, logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, strategy=DDPStrategy(process_group_backend="tutti"))
    trainer.fit(Module(), torch.utils.data.DataLoader(data(0), batch_size=4))


def use_deepspeed():
    import deepspeed
    import torch

    deepspeed.init_distributed(dist_backend="tutti")
    torch.manual_seed(int(os.environ["RANK"]))  # the engine sends rank 0's parameters to all
    model = torch.nn.Linear(4, 1)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}}})
    for x, y in torch.utils.data.DataLoader(data(int(os.environ["RANK"])), batch_size=8):
        loss = torch.nn.functional.mse_loss(engine(x), y)
        engine.backward(loss)
        engine.step()
    agree(engine.module, "deepspeed")


def use_accelerate():
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == RANKS, accelerator.state
    model = torch.nn.Linear(4, 1)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1),
                                                   torch.utils.data.DataLoader(data(0), batch_size=4))
    for x, y in loader:
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    agree(model, "accelerate")
    assert accelerator.gather(torch.ones(1)).sum() == RANKS


def use_trainer():
    import torch
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x=None, labels=None):
            y = self.layer(x)
            return {"loss": torch.nn.functional.mse_loss(y, labels), "logits": y}

    rows = [{"x": x, "labels": y} for x, y in data(0)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, use_cpu=True, per_device_train_batch_size=4, num_train_epochs=1,
                                      report_to=[], save_strategy="no", disable_tqdm=True)
        trainer = Trainer(Model(), arguments, train_dataset=rows)
        trainer.train()
        agree(trainer.model, "trainer")


def ray_worker():
    import torch
    import torch.distributed as dist
    from ray.train.torch import prepare_model

    model = prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in torch.utils.data.DataLoader(data(dist.get_rank()), batch_size=8):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    agree(model, "ray")


def use_ray():
    import ray
    from ray.train import ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    ray.init(num_cpus=RANKS + 1, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        TorchTrainer(ray_worker, torch_config=TorchConfig(backend="tutti"),
                     scaling_config=ScalingConfig(num_workers=RANKS),
                     run_config=ray.train.RunConfig(storage_path=folder)).fit()
    print("ray: all agree", flush=True)


ALIAS = {"TUTTI_TORCH_AS": "gloo"}
# name -> how its users start it, their variables, and how often it must say "agree"
STARTS = {
    "lightning": ([sys.executable], {}, RANKS),
    "deepspeed": (TORCHRUN, {"DS_ACCELERATOR": "cpu"}, RANKS),
    "accelerate": (TORCHRUN, ALIAS, RANKS),
    "trainer": (TORCHRUN, ALIAS, RANKS),
    "ray": ([sys.executable], {"RAY_USAGE_STATS_ENABLED": "0"}, 1),
}
PROGRAMS = {"lightning": use_lightning, "deepspeed": use_deepspeed, "accelerate": use_accelerate,
            "trainer": use_trainer, "ray": use_ray}


def start(name):
    words, variables, count = STARTS[name]
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        info = pathlib.Path(folder, "tutti-0.dist-info")  # the entry point that pip would have written
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tutti\nVersion: 0\n")
        (info / "entry_points.txt").write_text("[torch.backends]\ntutti = tutti.torch:autoload\n")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        environment = dict(os.environ, PYTHONPATH=f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}",
                           TUTTI_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", MASTER_PORT=str(port), HF_HUB_OFFLINE="1",
                           CUDA_VISIBLE_DEVICES="", **variables)
        done = subprocess.run([*words, HERE, name, "program"], env=environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    if done.returncode or done.stdout.count("agree") < count:
        sys.exit(f"{name}: status {done.returncode}\n{done.stdout[-8000:]}")
    print("\n".join(line for line in done.stdout.splitlines() if "agree" in line or "stands for" in line))


if __name__ == "__main__":
    if sys.argv[2:] == ["program"]:
        PROGRAMS[sys.argv[1]]()
    else:
        start(sys.argv[1])
