"""Certificates for https where the system has none: those of certifi."""

import os

# As in src/stoker/io/remote/certificates.cpp, which also looks there.
_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_VARIABLES = ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


def find_certificates() -> None:
    """Sets SSL_CERT_FILE to certifi's file, if that is installed and neither the user nor the system names any."""
    if any(os.environ.get(name) for name in _VARIABLES) or any(map(os.path.isfile, _SYSTEM)):
        return
    try:
        import certifi
    except ImportError:
        return
    os.environ["SSL_CERT_FILE"] = certifi.where()
