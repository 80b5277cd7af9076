"""The job array of bench/SCALING.md."""

from __future__ import annotations

import re
import subprocess

from tests.bench.conftest import ROOT

(SCRIPT,) = re.findall(
    r"```bash\n(.*?)```", (ROOT / "bench" / "SCALING.md").read_text(), flags=re.DOTALL
)


def test_the_job_file_is_a_script_that_slurm_takes() -> None:
    assert subprocess.run(["bash", "-n"], input=SCRIPT, text=True, check=False).returncode == 0
    lines = SCRIPT.splitlines()
    assert lines[0] == "#!/bin/bash"
    options = [line for line in lines if line.startswith("#SBATCH")]
    assert lines[1 : 1 + len(options)] == options  # Slurm reads no further than the first command
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line) for line in options)
