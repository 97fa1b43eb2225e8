#!/bin/bash
# Builds llama.cpp's server for the CPU and a model with random weights into .cache/conformance/llama (15 minutes on one core).
# The source archive of llama-cpp-python on PyPI contains llama.cpp. Needs python3, cmake and a C++ compiler.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
OUT=$(cd "$HERE/../../.." && pwd)/.cache/conformance/llama
VERSION=0.3.36
mkdir -p "$OUT" && cd "$OUT"
[ -d venv ] || python3 -m venv venv
venv/bin/pip install --quiet gguf==0.19.0
[ -d "llama_cpp_python-$VERSION" ] || {
  venv/bin/pip download --quiet --no-deps --no-binary :all: "llama-cpp-python==$VERSION"
  tar xzf "llama_cpp_python-$VERSION.tar.gz"
}
SOURCE=llama_cpp_python-$VERSION/vendor/llama.cpp
cmake -S "$SOURCE" -B build -DGGML_NATIVE=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DBUILD_SHARED_LIBS=OFF \
  -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
cmake --build build --target llama-server -j"${JOBS:-1}"
cp build/bin/llama-server llama-server
venv/bin/python "$HERE/python/make_gguf.py" "$SOURCE/models/ggml-vocab-llama-spm.gguf" tiny.gguf
