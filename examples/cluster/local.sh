#!/bin/sh
# A Dask scheduler and two workers on this machine carry an experiment out, and end with it:
# sh examples/cluster/local.sh FILE [further words of cwndlab run]. Needs pip install 'cwndlab[cluster]'.
set -eu
[ $# -gt 0 ] || { echo "usage: $0 FILE [words of cwndlab run]" >&2; exit 2; }

place=$(mktemp -d)
started=
# A worker that is asked to end while its scheduler goes away may wait for ever; what all of them have written is in $place.
trap 'kill -KILL $started 2>/dev/null || :; wait; rm -rf "$place"' EXIT
trap 'exit 130' INT TERM

# Whoever reaches these ports is trusted, so that they are this machine's alone.
dask scheduler --host 127.0.0.1 --port 0 --no-dashboard --scheduler-file "$place/scheduler.json" >"$place/scheduler.log" 2>&1 &
started=$!
while [ ! -s "$place/scheduler.json" ]; do
    kill -0 $started 2>/dev/null || { cat "$place/scheduler.log" >&2; exit 1; }
    sleep 0.2
done
address=$(sed -n 's/.*"address": "\([^"]*\)".*/\1/p' "$place/scheduler.json")
for worker in 1 2; do
    dask worker "$address" --nthreads 1 --no-nanny --no-dashboard --local-directory "$place/$worker" >"$place/$worker.log" 2>&1 &
    started="$started $!"
done

cwndlab run "$@" --cluster "$address"
