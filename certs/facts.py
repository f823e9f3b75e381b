"""From bytes to the facts that `certs.rotation` decides by. What cannot be read is as good as not there."""

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.files import BadPair, check
from certs.issue import Pair
from certs.rotation import Ca, Leaf
from certs.validity import Validity

TLS_CERT: Final = "tls.crt"
TLS_KEY: Final = "tls.key"
CA_CERT: Final = "ca.crt"

_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound, x509.DuplicateExtension)


class Authorities:
    """The CA certificates that were met, by the id under which the planner speaks of them."""

    def __init__(self) -> None:
        self._met: dict[str, x509.Certificate] = {}

    def of(self, pem: bytes) -> tuple[Ca, ...]:
        """The CAs of a bundle in its order; a bundle with anything unreadable in it is no bundle."""
        try:
            return tuple(self._meet(certificate) for certificate in x509.load_pem_x509_certificates(pem))
        except _UNREADABLE:
            return ()

    def pem(self, cas: Iterable[Ca]) -> bytes:
        return b"".join(self._met[ca.id].public_bytes(serialization.Encoding.PEM) for ca in cas)

    def issuer(self, certificate: x509.Certificate) -> str:
        """The id of the CA met so far that signed it; empty where none did."""
        for name, ca in self._met.items():
            with suppress(InvalidSignature, *_UNREADABLE):
                certificate.verify_directly_issued_by(ca)
                return name
        return ""

    def _meet(self, certificate: x509.Certificate) -> Ca:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            message = "not a CA"
            raise ValueError(message)
        name = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
        self._met[name] = certificate
        return Ca(name, _validity(certificate))


def pair_of(data: Mapping[str, bytes]) -> Pair:
    """The certificate and key of a Secret of type kubernetes.io/tls."""
    return Pair(data.get(TLS_CERT, b""), data.get(TLS_KEY, b""))


def signer_of(pair: Pair, authorities: Authorities) -> Ca | None:
    """The CA that we can sign with: one certificate, an elliptic-curve key, and they belong together."""
    try:
        check(pair)
        key = serialization.load_pem_private_key(pair.key, password=None)
    except (BadPair, *_UNREADABLE):
        return None
    found = authorities.of(pair.cert)
    return found[0] if len(found) == 1 and isinstance(key, ec.EllipticCurvePrivateKey) else None


def leaf_of(pair: Pair, authorities: Authorities) -> Leaf | None:
    """What would be served; ask after all CAs were met."""
    try:
        check(pair)
        certificate = x509.load_pem_x509_certificate(pair.cert)
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (BadPair, *_UNREADABLE):
        return None
    names = frozenset(alternative.get_values_for_type(x509.DNSName))
    return Leaf(authorities.issuer(certificate), names, _validity(certificate))


def _validity(certificate: x509.Certificate) -> Validity:
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)
