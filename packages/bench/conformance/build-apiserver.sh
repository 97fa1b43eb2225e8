#!/bin/bash
# Builds kube-apiserver, and fetches Debian's etcd and the definition of InferencePools, into .cache/conformance/kubernetes (8 minutes of CPU time, 2 GB of Go caches).
# Needs Go 1.26 or newer and apt-get; installs nothing on the system.
set -euo pipefail
OUT=$(cd "$(dirname "$0")/../../.." && pwd)/.cache/conformance/kubernetes
VERSION=${1:-v1.37.2}
export PATH=$PATH:/usr/local/go/bin GOTOOLCHAIN=local GOFLAGS=-mod=mod GOMAXPROCS=${JOBS:-1}
mkdir -p "$OUT/deb" "$OUT/module"
(cd "$OUT/deb" && apt-get download -qq etcd-server && dpkg -x etcd-server_*.deb . && cp usr/bin/etcd "$OUT/etcd")
cd "$OUT/module"
# k8s.io/kubernetes replaces its staging modules by folders; here each is its published version.
GOMOD=$(go mod download -json "k8s.io/kubernetes@$VERSION" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
[ -f go.mod ] || go mod init scratch
go mod edit -require="k8s.io/kubernetes@$VERSION"
{ grep -oE 'k8s\.io/[a-z0-9-]+ v0\.0\.0( |$)' "$GOMOD"; grep -oE 'k8s.io/[a-z0-9-]+ => \./staging' "$GOMOD"; } |
  awk '{print $1}' | sort -u | while read -r module; do go mod edit -replace="$module=$module@v0.${VERSION#v1.}"; done
LABEL=k8s.io/component-base/version
CGO_ENABLED=0 go build -p "${JOBS:-1}" -trimpath \
  -ldflags "-s -w -X $LABEL.gitVersion=$VERSION -X $LABEL.gitMajor=1 -X $LABEL.gitMinor=$(echo "$VERSION" | cut -d. -f2)" \
  -o "$OUT/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
POOLS=sigs.k8s.io/gateway-api-inference-extension
CRDS=$(go mod download -json "$POOLS@v1.5.0" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
install -m 644 "$CRDS/config/crd/bases/inference.networking.k8s.io_inferencepools.yaml" "$OUT/inferencepools.yaml"
