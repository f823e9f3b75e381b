"""The whole product against the real control plane, with the audit log as the oracle.

Must not import what it tests other than the names on the wire.
"""
