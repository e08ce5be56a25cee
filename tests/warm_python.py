"""A `python`, a `dvc` and a `pipeline` that start at once: forks of a process that has the libraries already.

A copy of the project runs dozens of stages, and what each takes on its small data is to import torch. The
modules of `pipeline` are imported anew by every fork: from the copy, as it is then. What else a process would
read while it starts is compared: under other environment variables it starts as Python does.
"""

import atexit
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

LIBRARIES = """
    altair datasets faiss jinja2 jsonschema onnx onnxruntime onnxscript polars pyarrow.dataset
    pyarrow.parquet pydantic rich.markdown ruamel.yaml safetensors.torch scipy.stats sentence_transformers
    sklearn.metrics sympy tokenizers torch._dynamo torch.export._trace torch.onnx._internal.exporter._core
    transformers.models.bert.modeling_bert typer typer.rich_utils vl_convert xxhash dvc.cli
    dvc.commands.repro dvc.output dvc.repo dvc.stage.cache dvc.utils.serialize._yaml
"""
UNREAD = {"PWD", "OLDPWD", "SHLVL", "_", "PATH", "PYTEST_CURRENT_TEST", "PIPELINE_CACHE"}
UNREAD_BEGINNINGS = ("DVC_", "CELERY_", "_MP_FORK_")
"""Environment variables that nothing reads while it is imported, and how the names of others begin. Celery
runs queued experiments."""
SCRIPT = '#!/bin/sh\nexec "{python}" -IS "{file}" "{address}" "{python}" {module} "$@"\n'


@cache
def environment() -> dict[str, str]:
    """This process's at the first call, before a test has changed it: later ones have it again."""
    return dict(os.environ)


@cache
def folder() -> Path:
    """The folder to put before all others on the PATH; the process that is forked begins to import."""
    made = Path(tempfile.mkdtemp(prefix="warm"))
    address = made / "socket"
    for name, module in (("python", ""), ("dvc", "-m dvc"), ("pipeline", "-m pipeline.cli")):
        (made / name).write_text(
            SCRIPT.format(python=sys.executable, file=__file__, address=address, module=module)
        )
        (made / name).chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen(16)
        server = subprocess.Popen(
            [sys.executable, __file__, str(listening.fileno())],
            env=environment(),
            pass_fds=[listening.fileno()],
            stdin=subprocess.PIPE,  # it ends with this process
        )
    atexit.register(shutil.rmtree, made)
    atexit.register(server.kill)
    return made


def ask(address: str, python: str, *arguments: str) -> None:
    """Run `python ARGUMENTS` in a fork; this process then ends as that does. Without a server, run Python."""
    with socket.socket(socket.AF_UNIX) as asked:
        if arguments[:1] == ("-m",) and not asked.connect_ex(address):
            asked_for = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
            socket.send_fds(asked, [len(asked_for).to_bytes(8, "big")], [0, 1, 2])
            asked.sendall(asked_for)
            if answer := asked.makefile().read():
                status = int(answer)
                if status < 0:
                    signal.signal(-status, signal.SIG_DFL)
                    os.kill(os.getpid(), -status)
                os._exit(status)
    os.execv(python, [python, *arguments])


def serve(listening: socket.socket) -> None:
    """Import the libraries; fork for every connection, until the process that started this one is gone."""
    from pipeline.core import quick_imports

    before = dict(os.environ)
    quick_imports.install()
    for name in LIBRARIES.split():
        import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pipeline"]:
        del sys.modules[name]
    let_libyaml_read_the_lock()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the forks that answer are not waited for
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listening.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            try:
                with connection:
                    answer(connection, before)
            finally:
                os._exit(0)
        connection.close()


def let_libyaml_read_the_lock() -> None:
    """After every stage DVC parses dvc.lock in Python, for comments in it: two seconds a stage here."""
    yaml = sys.modules["dvc.utils.serialize._yaml"]
    in_python = yaml.parse_yaml_for_update
    yaml.parse_yaml_for_update = lambda text, path: (
        yaml.parse_yaml(text, path) if Path(path).name == "dvc.lock" else in_python(text, path)
    )


def answer(connection: socket.socket, before: dict[str, str]) -> None:
    """Run what is asked for in a fork, kill it where who asked is gone; tell its exit status.

    Nothing where the environment is not the one that the libraries were imported in.
    """
    length, streams, _, _ = socket.recv_fds(connection, 8, 3)
    asked_for = connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    arguments, where, environment = json.loads(asked_for)
    added = os.environ.keys() - before.keys()
    if any(
        environment.get(name) != before.get(name) for name in {*environment, *before} - added if is_read(name)
    ):
        return
    if not (process := os.fork()):
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(where)
        for name in before.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        sys.path[0] = where
        run(arguments[1], arguments[1:])
    for stream in streams:
        os.close(stream)
    handle = os.pidfd_open(process)
    if handle not in select.select([connection, handle], [], [])[0]:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def is_read(name: str) -> bool:
    """Whether a library may read this environment variable while it is imported."""
    return name not in UNREAD and not name.startswith(UNREAD_BEGINNINGS)


def run(module: str, arguments: list[str]) -> NoReturn:
    """Run a module as `python -m` does, and end."""
    status, sys.argv = 1, arguments
    try:
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            status = 0
        except SystemExit as ended:
            if isinstance(ended.code, str):
                sys.stderr.write(f"{ended.code}\n")
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        threading._shutdown()
        atexit._run_exitfuncs()
        if not sys.stdout.closed:
            sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(socket.socket(fileno=int(sys.argv[1])))
    else:
        ask(*sys.argv[1:])
