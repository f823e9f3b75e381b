"""`python -m tests.chart reference` writes generated pages, `kustomize` the base, `template` prints the chart."""

from __future__ import annotations

import argparse
import sys

from tests.chart import helm, kustomize, reference


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.chart", description=__doc__)
    parser.add_argument("what", choices=("reference", "kustomize", "template"))
    arguments = parser.parse_args()
    if arguments.what == "reference":
        for path, text in reference.pages().items():
            path.write_text(text)
    elif arguments.what == "kustomize":
        kustomize.write()
    else:
        sys.stdout.write(helm.helm("template", helm.RELEASE, str(helm.CHART), "--namespace", helm.NAMESPACE).stdout)
    return 0


sys.exit(main())
