"""FedDyn against FL-bench, whose optimiser decays weights by alpha where the penalty pulls."""

from __future__ import annotations

import pytest
import torch

from tests.algorithms import plain, toys
from tests.references.flbench import SIZES, Bench, average, ours

ALPHA = 0.3


@pytest.mark.parametrize("decay", [ALPHA, 0.0])
def test_feddyn_is_flbench_with_alpha_as_weight_decay(bench: Bench, decay: float) -> None:
    """Without it, FL-bench's loss has the linear terms alone."""
    run = ours("feddyn", {"alpha": ALPHA}, sizes=SIZES, weight_decay=0.0)
    server = bench("feddyn", "FedDynServer", run, alpha=ALPHA, max_grad_norm=1e9)
    worker = server.trainer.worker
    for state in (worker.optimizer.state_dict(), worker.init_optimizer_state):
        state["param_groups"][0]["weight_decay"] = decay
    server.train()
    distance = plain.apart(average(server, run), run.state["theta"])
    assert distance < 1e-9 if decay else distance > 1e-3
    assert decay == 0 or plain.apart(server.nabla, run.state["h_own"]) < 1e-9
    other = toys.run("fedavg", sizes=SIZES, dtype=torch.float64)
    assert plain.apart(run.state["theta"], other.state["theta"]) > 1e-3
