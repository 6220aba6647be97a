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
set -x
cwndlab --version
cwndlab demo --help | head -n 3
time cwndlab demo --no-open -o demo
test -s demo/report.html
cwndlab help start | head -n 3
cwndlab help | wc -l
cwndlab init
cwndlab run experiment.yaml --dry-run | tail -n 1
cwndlab plot demo --kind cwnd --run 0 -o cwnd.svg
cwndlab bundle demo -o paper.tar.gz
cwndlab reproduce paper.tar.gz --quiet
cwndlab completion bash | bash -n
cwndlab cite | head -n 6
python -c 'from cwndlab.web import serve; print(len(serve.page_files()), "files of the live lab")'
# With the wheel, where shells and man look for them.
for file in man/man1/cwndlab.1 bash-completion/completions/cwndlab zsh/site-functions/_cwndlab fish/vendor_completions.d/cwndlab.fish; do
    test -s lab/share/$file
done
