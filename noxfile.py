"""What users and CI run. Everything after `--` is passed on to the tool behind a session."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["reproduce"]


def install(session: nox.Session, *extras: str) -> None:
    """This clone, with the exact versions that the committed results were made with; again only
    when what is asked for has changed, since to look takes longer than a report.
    """
    session.env["PYTHONDONTWRITEBYTECODE"] = ""  # or every process would compile its libraries
    asked = f".[{','.join(extras)}]" if extras else "."
    texts = [Path(name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    digest = sha256(b"\0".join([asked.encode(), *texts])).hexdigest()
    done = Path(session.virtualenv.location, f"{digest}.installed")
    if not done.exists():
        # pip, so that users of the environment can add packages of their own to it
        session.install("pip", "--editable", asked, "--constraint", "constraints.txt")
        done.touch()


@nox.session
def reproduce(session: nox.Session) -> None:
    """Run what is missing and write the report, e.g. `nox -s reproduce -- --paper fedpurin`."""
    install(session)
    session.run("repfl", "reproduce", *session.posargs)


@nox.session
def tables(session: nox.Session) -> None:
    """Write the report from stored records only."""
    install(session)
    session.run("repfl", "report", *session.posargs)


@nox.session
def site(session: nox.Session) -> None:
    """All pages and the report as one static folder, `site/`."""
    install(session, "site")
    session.run("repfl", "report", *session.posargs)
    told = {"NO_MKDOCS_2_WARNING": "1", "REPFL_REPORT": "report"}
    session.run("mkdocs", "build", "--strict", env=told)
    session.log(f"start here: {Path('site', 'index.html').resolve()}")


@nox.session
def tests(session: nox.Session) -> None:
    """The test suite; `-- -m slow` for the long ones."""
    install(session, "dev")
    # a file at a time, so that what its tests share is computed once
    session.run("pytest", "--numprocesses", "2", "--dist", "loadfile", *session.posargs)


@nox.session(python="3.11")  # for later ones, some of these versions have no wheels
def bounds(session: nox.Session) -> None:
    """The test suite with the oldest versions that pyproject.toml admits; needs uv."""
    oldest = Path(session.virtualenv.location, "oldest.txt")
    asked = ["--resolution", "lowest-direct", "--python", str(session.virtualenv.location)]
    compile_ = ["uv", "pip", "compile", "--quiet", "pyproject.toml"]
    session.run_install(*compile_, *asked, "--output-file", str(oldest), external=True)
    session.install("pip", "--editable", ".[dev]", "--constraint", str(oldest))
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    session.run("pytest", "--numprocesses", "2", "--dist", "loadfile", *session.posargs)


@nox.session
def optional(session: nox.Session) -> None:
    """The tests of Ray and of the trackers, whose packages repfl does not install by itself."""
    install(session, "dev", "ray", "trackers")
    folder = Path("tests", "bench", "run")
    session.run("pytest", *(str(folder / f"test_{name}.py") for name in ("ray", "trackers")))


@nox.session
def references(session: nox.Session) -> None:
    """Our methods against the code that their authors published, which is cloned into `references/`
    and stays out of this repository.
    """
    install(session, "dev")
    folder, kept = Path("tests", "references"), Path("references").resolve()
    text = "".join(file.read_text() for file in folder.glob("*.py"))
    for repository in sorted(set(re.findall(r'"([\w.-]+/[\w.-]+)", "[0-9a-f]{7}"', text))):
        held = kept / repository.replace("/", "+")
        if not held.exists():
            address = f"https://github.com/{repository}"
            session.run("git", "clone", "--quiet", "--bare", address, str(held), external=True)
    session.run("pytest", str(folder), *session.posargs, env={"REPFL_REFERENCES": str(kept)})


@nox.session
def lint(session: nox.Session) -> None:
    """Style and types."""
    install(session, "dev")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


@nox.session
def regress(session: nox.Session) -> None:
    """Has any method's accuracy moved? `-- --accept --reason "..."` takes the new numbers as the
    reference.
    """
    install(session)
    session.run("repfl", "check", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Speed beside plain PyTorch; figures are kept in `.benchmarks/`. Needs a machine that does
    nothing else.
    """
    install(session, "dev")
    shown = ("--benchmark-sort=name", "--benchmark-columns=median,iqr,rounds")
    how = ("-m", "speed", "--benchmark-enable", "--benchmark-autosave", *shown)
    session.run("pytest", *how, *session.posargs)
