"""Stand-ins for what published code imports or reads and an experiment of ours does not need.
Imports nothing of ours.
"""

from __future__ import annotations

import pickle
import types
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import MagicMock

FLBENCH = (
    *("omegaconf", "hydra", "hydra.core", "hydra.core.hydra_config", "ray", "ray.actor", "pynvml"),
    *("data", "data.utils", "data.utils.datasets"),
    *("rich", "rich.console", "rich.pretty", "rich.progress"),
    *("statsmodels", "statsmodels.stats", "statsmodels.stats.correlation_tools"),
    *("torchmin", "torchvision", "torchvision.models", "torchvision.transforms"),
)
"""What FL-bench imports."""
OFF = (
    *("random_join_ratio", "few_shot", "time_select", "auto_break", "dlg_eval"),
    *("num_new_clients", "fine_tuning_epoch_new"),
)
RATES = ("client_drop_rate", "train_slow_rate", "send_slow_rate", "learning_rate_decay")
WORDS = ("algorithm", "dataset", "goal", "save_folder_name")
HUGE = ("eval_gap", "dlg_gap", "time_threthold", "top_cnt", "batch_num_per_client")


def module(name: str, contents: dict[str, Any]) -> types.ModuleType:
    """A module with these contents."""
    made = types.ModuleType(name)
    made.__dict__.update(contents)
    return made


def anything(name: str) -> Any:
    """Whatever is imported from a stand-in."""
    if name.startswith("__"):
        raise AttributeError(name)
    made = MagicMock()
    if name == "HydraConfig":  # a folder that FL-bench writes into
        made.get.return_value.runtime.output_dir = mkdtemp(prefix="repfl-")
    return made


class Config(dict[str, Any]):
    """omegaconf's DictConfig, as far as it is needed."""

    def __init__(self, values: dict[str, Any]) -> None:
        held = ((name, Config(v) if isinstance(v, dict) else v) for name, v in values.items())
        super().__init__(held)

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]

    __setattr__, __delattr__ = dict.__setitem__, dict.__delitem__


def flbench(held: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The contents of stand-ins for what FL-bench imports, some of which are given."""
    own = {"omegaconf": {"DictConfig": Config}, "rich.progress": {"track": first}} | held
    return {name: {"__getattr__": anything} | own.get(name, {}) for name in FLBENCH}


def first(rounds: Any, *_: Any, **__: Any) -> Any:
    return rounds


def partition(folder: Path, indices: list[dict[str, list[int]]]) -> None:
    """FL-bench's files that say who holds which image; everybody trains and is scored."""
    everybody = list(range(len(indices)))
    separation = dict.fromkeys(("train", "test", "val"), everybody) | {"total": len(indices)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "args.json").write_text('{"split": "sample"}', encoding="utf-8")
    held = {"separation": separation, "data_indices": indices}
    (folder / "partition.pkl").write_bytes(pickle.dumps(held))


def served(
    dataset: str, model: str, name: str, kind: str, common: Any, options: Any, optimizer: Any
) -> Any:
    """FL-bench's server of a method, which keeps no log."""
    quiet = {"client_side_evaluation": False, "save_log": False, "use_cuda": False}
    settings = {"dataset": {"name": dataset}, "model": {"name": model}, "optimizer": optimizer}
    settings |= {"common": quiet | common, name: options}
    cls = getattr(import_module(f"src.server.{name}"), kind)
    parse = import_module("src.utils.functional").parse_args
    return cls(parse(Config(settings), name, getattr(cls, "get_hyperparams", None)))


def words(**said: Any) -> Namespace:
    """PFLlib's arguments, with all that is not said left out of the experiment."""
    unsaid = dict.fromkeys(OFF + RATES, 0) | dict.fromkeys(WORDS, "toy")
    unsaid |= dict.fromkeys(HUGE, 10**9) | {"device": "cpu", "learning_rate_decay_gamma": 1.0}
    return Namespace(**unsaid | said)
