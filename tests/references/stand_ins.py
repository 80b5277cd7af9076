"""Stand-ins for what published code imports or reads and an experiment of ours does not need.
Imports nothing of ours.
"""

from __future__ import annotations

import types
from argparse import Namespace
from typing import Any
from unittest.mock import MagicMock

FLBENCH = (
    *(
        "omegaconf",
        "hydra",
        "hydra.core",
        "hydra.core.hydra_config",
        "ray",
        "ray.actor",
        "pynvml",
        "data",
        "data.utils",
        "data.utils.datasets",
    ),
    *(
        "rich",
        "rich.console",
        "rich.pretty",
        "rich.progress",
        "statsmodels",
        "statsmodels.stats",
        "statsmodels.stats.correlation_tools",
    ),
    *("torchmin", "torchvision", "torchvision.models", "torchvision.transforms"),
)
"""What FL-bench imports."""
OFF = (
    "random_join_ratio",
    "few_shot",
    "time_select",
    "auto_break",
    "dlg_eval",
    "num_new_clients",
    "fine_tuning_epoch_new",
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
    return MagicMock()


class Config(dict[str, Any]):
    """omegaconf's DictConfig, as far as it is needed."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(
            {
                name: Config(value) if isinstance(value, dict) else value
                for name, value in values.items()
            }
        )

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]

    __setattr__, __delattr__ = dict.__setitem__, dict.__delitem__


def words(**said: Any) -> Namespace:
    """PFLlib's arguments, with all that is not said left out of the experiment."""
    unsaid = (
        dict.fromkeys(OFF + RATES, 0) | dict.fromkeys(WORDS, "toy") | dict.fromkeys(HUGE, 10**9)
    )
    return Namespace(**unsaid | {"device": "cpu", "learning_rate_decay_gamma": 1.0} | said)
