#!/bin/sh
# Installs a wheel as a new user does, in an empty directory with no Rust on the path, and tries what it promises:
# sh packaging/try_wheel.sh dist/cwndlab-*.whl
set -eu
wheel=$(realpath "$1")
python=$(command -v "${PYTHON:-python3}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export HOME="$work" PATH=/usr/bin:/bin
"$python" -m venv lab
lab/bin/pip install --quiet --disable-pip-version-check "$wheel"
. lab/bin/activate
# The beginning of what a command prints, which has to succeed: in a pipe nobody would notice if it does not.
begins() { "$@" > said && head -n 3 said; }
set -x
cwndlab --version
begins cwndlab demo --help
time cwndlab demo --no-open -o demo
test -s demo/report.html
begins cwndlab help start
begins cwndlab help
begins cwndlab help python
test -e lab/lib/python3*/site-packages/cwndlab/py.typed
cwndlab init
begins cwndlab run experiment.yaml --dry-run
cwndlab plot demo --kind cwnd --run 0 -o cwnd.svg
cwndlab data bundle demo -o paper.tar.gz
cwndlab data reproduce paper.tar.gz --quiet
begins cwndlab dev completion bash
bash -n said
begins cwndlab data cite
# The package of this repository that lies beside it.
for more in "$(dirname "$wheel")"/cwndlab_teacup-*.whl; do
    [ -e "$more" ] || continue
    if cwndlab data export demo --format xplot -o graphs; then exit 1; fi
    pip install --quiet --disable-pip-version-check --no-index --find-links "$(dirname "$wheel")" 'cwndlab[teacup]'
    begins cwndlab data export demo --format xplot -o graphs
done
python -c 'from cwndlab.report.live_page import serve; print(len(serve.page_files()), "files of the live lab")'
# With the wheel, where shells and man look for them.
for file in man/man1/cwndlab.1 bash-completion/completions/cwndlab zsh/site-functions/_cwndlab fish/vendor_completions.d/cwndlab.fish; do
    test -s lab/share/$file
done
