"""The job array of bench/SCALING.md, with Slurm's commands played by stand-ins: shards on one
store, preemption, requeue.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench.conftest import FAULTY, ROOT, environment
from tests.bench.run.test_runner import CELLS, SLOW, digests, nothing_left

(SCRIPT,) = re.findall(
    r"```bash\n(.*?)```", (ROOT / "bench" / "SCALING.md").read_text(), flags=re.DOTALL
)
STANDINS = {
    "srun": 'echo $$ >> "$STEPS"; exec "$@"',
    "scontrol": 'echo "$@" >> "$STEPS.requeued"',
    "repfl": f'exec {sys.executable} -m repfl "$@"',
}


@dataclass(frozen=True)
class Farm:
    """A shared folder with the script, and the commands it calls."""

    shared: Path

    def submit(self, task: int, tasks: int) -> subprocess.Popen[str]:
        path = f"{self.shared / 'bin'}:{os.environ['PATH']}"
        variables = {
            "SLURM_ARRAY_JOB_ID": "7",
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_ARRAY_TASK_COUNT": str(tasks),
        }
        surroundings = environment(PATH=path, STEPS=str(self.steps), **variables)
        command = ["bash", str(self.shared / "job.sh")]
        return subprocess.Popen(
            command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def steps(self) -> Path:
        return self.shared / "steps"

    @property
    def results(self) -> Path:
        return self.shared / "results"


def farm(shared: Path, grid: str) -> Farm:
    (shared / "tests.toml").write_text(grid)
    (shared / "repfl" / ".venv" / "bin").mkdir(parents=True)
    (shared / "repfl" / ".venv" / "bin" / "activate").touch()
    (shared / "bin").mkdir()
    for name, body in STANDINS.items():
        (shared / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (shared / "bin" / name).chmod(0o755)
    cells = f"--grid {shared / 'tests.toml'} --plugin {FAULTY} --executor inline --checkpoint 0.001"
    script = SCRIPT.replace("--paper fedobp --scale paper", cells).replace("/shared", str(shared))
    (shared / "job.sh").write_text(script)
    return Farm(shared)


def test_the_job_file_is_a_script_that_slurm_takes() -> None:
    assert subprocess.run(["bash", "-n"], input=SCRIPT, text=True, check=False).returncode == 0
    lines = SCRIPT.splitlines()
    assert lines[0] == "#!/bin/bash"
    options = [line for line in lines if line.startswith("#SBATCH")]
    assert lines[1 : 1 + len(options)] == options  # Slurm reads no further than the first command
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line) for line in options)


@pytest.mark.slow
def test_a_preempted_job_is_put_back_and_goes_on(tmp_path: Path) -> None:
    made = farm(tmp_path, SLOW)
    job = made.submit(1, 1)
    while not list(made.results.glob(".running/*.safetensors")):
        time.sleep(0.05)
        assert job.poll() is None, job.communicate()[0]
    os.kill(int(made.steps.read_text()), signal.SIGTERM)
    said = job.communicate(timeout=60)[0]
    assert job.returncode == 143, said
    assert Path(f"{made.steps}.requeued").read_text() == "requeue 7_1\n"
    before = len(digests(made.results))
    assert before < CELLS
    again = made.submit(1, 1)
    assert (again.communicate(timeout=300), again.returncode)[1] == 0
    assert len(digests(made.results)) == CELLS
    assert nothing_left(made.results)
