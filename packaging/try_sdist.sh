#!/bin/sh
# Builds a wheel from the source distribution as pip does, in an empty directory, and tries it as a new user would:
# sh packaging/try_sdist.sh dist/cwndlab-*.tar.gz
set -eu
sdist=$(realpath "$1")
try=$(realpath "$(dirname "$0")/try_wheel.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"${PYTHON:-python3}" -m venv builder
TMPDIR=$work builder/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir built "$sdist"
sh "$try" built/*.whl
