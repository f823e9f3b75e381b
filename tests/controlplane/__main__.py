"""`python -m tests.controlplane build` builds the programs; `up` runs a control plane until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.programs import ensure_programs
from tests.controlplane.toolchain import NoToolchainError


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the programs, if that has not been done yet")
    up = commands.add_parser("up", help="run a control plane until Ctrl-C")
    up.add_argument("--gpu-nodes", type=int, default=0, metavar="N", help="add N nodes with 8 GPUs of class h100")
    up.add_argument("--without-hold-policy", action="store_true", help="serve no MutatingAdmissionPolicy")
    arguments = parser.parse_args()
    try:
        programs = ensure_programs()
    except NoToolchainError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.command == "build":
        print(f"control plane: the programs are in {programs.kube_apiserver.parent} and {programs.kwok.parent}")
        return 0
    return _up(ControlPlane(programs=programs, hold_policy_api=not arguments.without_hold_policy), arguments.gpu_nodes)


def _up(control_plane: ControlPlane, gpu_nodes: int) -> int:
    ended = threading.Event()
    with control_plane:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        for node in range(gpu_nodes):
            control_plane.nodes.add_gpu_node(f"gpu-{node}", "h100", 8)
        print(f"export KUBECONFIG={control_plane.admin_kubeconfig}")
        print(
            f"kubectl is {control_plane.layout.programs.kubectl}, logs are in {control_plane.directory}; Ctrl-C ends it"
        )
        sys.stdout.flush()
        ended.wait()
    return 0


sys.exit(main())
