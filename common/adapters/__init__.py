"""The ways to the outside: Kubernetes, the ledger, events, metrics, logs, the clock.

Must not import common.config, common.supervise or anything above common; decides nothing.
"""
