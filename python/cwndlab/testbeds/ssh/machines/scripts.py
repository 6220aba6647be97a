"""The scripts for a machine of the lab, in POSIX's shell: one directory per run, its lock, journal and jobs.

Everything of a run is below `BASE/run`, which only one run can make at a time:

- `holder` says whose it is; `token` is that process's own; `beat` when it was last heard of
- `journal/N` is the command that takes change N back: whole and on the disk before anything is changed, and
  removed once it has been carried out, so that restoring may be broken off and begun again at any point
- `jobs/NAME` has the process id of a program and when that started; `NAME.out` and `NAME.err` what it said

Scripts are read from standard input (`sh -s`), so that the user's own shell sees plain words only.
"""

from cwndlab.testbeds.live.shell import NOW

BASE = "/var/tmp/cwndlab"
"""Outlives a restart of the machine, as what is set at boot may be read from what was changed."""

SILENT_S = 30
"""Seconds without a beat after which whoever holds a machine is taken to be gone."""
BEAT_S = 5.0
"""Seconds between two beats."""

COMMON = (
    NOW
    + r"""
LC_ALL=C; PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin; export LC_ALL PATH
base=$1; dir=$base/run
# When a process started: its id alone may be another's by now.
born() {
    if [ -r "/proc/$1/stat" ]; then
        awk '{ sub(/.*\) /, ""); if ($1 != "Z") print $20 }' "/proc/$1/stat" 2>/dev/null
    else ps -o lstart= -p "$1" 2>/dev/null | tr ' ' _; fi
}
alive() {  # a file of jobs/
    [ -f "$1" ] || return 1
    read -r pid start < "$1"
    [ -n "$pid" ] && [ "$(born "$pid")" = "$start" ]
}
# Write down a program, so that it is ended with the run.
written() {  # a file of jobs/, a process id
    { printf '%s %s\n' "$2" "$(born "$2")" > "$1"; } 2>/dev/null && [ -s "$1" ] && return
    echo "$1 cannot be written (disk full?)" >&2
    return 1
}
# End all programs, then take back everything, the newest first. Prints what could not be.
restore() {  # a directory
    for job in "$1"/jobs/*; do
        if alive "$job"; then kill -s KILL -- "-$pid" 2>/dev/null; kill -s KILL "$pid" 2>/dev/null; fi
    done
    newest_first=
    for entry in "$1"/journal/*; do newest_first="$entry $newest_first"; done
    for entry in $newest_first; do
        if [ -f "$entry" ] && line=$(cat "$entry"); then undo "$line"; rm -f "$entry"; fi
    done
}
# Whether nothing is left to be taken back.
restored() {  # a directory
    for entry in "$1"/journal/*; do if [ -e "$entry" ]; then return 1; fi; done
}
undo() {  # a command
    said=$(sh -c "$1" 2>&1 </dev/null) || said=$(sh -c "$1" 2>&1 </dev/null) || echo "not restored: $1: $said"
}
# Take back what the controller knows and the journal lacks, the newest first, on a machine of ours.
known() {  # the directory of everything, a token, commands
    token=$2; shift 2
    if [ -d "$dir" ] && [ "$(cat "$dir/token" 2>/dev/null)" != "$token" ]; then exit 0; fi
    for line; do grep -qrxsF -e "$line" "$dir/journal" || undo "$line"; done
    [ -d "$dir" ] || exit 0
}
# Write down what takes a change back: on the disk, and read from there again, before the change is made.
note() {  # a command
    new=$dir/journal.new
    count=0
    for entry in "$dir"/journal/*; do if [ -e "$entry" ]; then count=$((count + 1)); fi; done
    printf '%s\n' "$1" 2>/dev/null > "$new" \
        && { sync "$new" 2>/dev/null || sync; } && [ "$(cat "$new")" = "$1" ] \
        && mv "$new" "$dir/journal/$(printf %06d $((count + 1)))" && return 0
    rm -f "$new"
    echo "$dir: the journal cannot be written, so nothing is changed (disk full?)" >&2
    return 1
}
age() {  # of the last beat, s; of a run whose guard is gone, very long
    if [ -f "$dir/guard" ] && ! alive "$dir/guard"; then echo 999999; return; fi
    echo $(($(date +%s) - $(cat "$dir/beat" 2>/dev/null || echo 0)))
}
# Others may write below /var/tmp: a directory of theirs, or a link, is never believed.
is_ours() { [ -n "$(find "$base" -prune -type d -user "$(id -u)" 2>/dev/null)" ]; }
# Whoever moves it away has it; it is put out of everybody's way first.
forget() {
    is_ours || return 1
    mv "$dir" "$base/old.$$" 2>/dev/null || return 1
    if alive "$base/old.$$/guard" && [ "$pid" != $$ ]; then kill -s KILL "$pid" 2>/dev/null; fi
    restore "$base/old.$$"
    if restored "$base/old.$$"; then rm -rf "$base/old.$$"; fi
}
# What is left of somebody who was ended while restoring.
leftover() {
    for old in "$base"/old.*; do
        if [ -d "$old" ] && ! kill -0 "${old##*.}" 2>/dev/null; then
            restore "$old"
            if restored "$old"; then rm -rf "$old"; fi
        fi
    done
}
"""
)
"""First argument: the directory of everything."""

STATE = r"""
identity=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null && readlink /proc/self/ns/net) \
    || identity=$(sysctl -n kern.hostuuid kern.boottime security.jail.jailed 2>/dev/null)
echo $identity
base=$1
while ! [ -d "$base" ]; do base=$(dirname "$base"); done
df -Pk "$base" | awk 'NR == 2 { print $4 }'
"""
"""Print what tells a machine from all others, and the free space in KB for runs; argument: the directory of
everything."""

TAKE = (
    COMMON
    + r"""
token=$2; holder=$3; silent=$4
umask 077
mkdir -p "$base"
is_ours || { echo "$base is not ours" >&2; exit 8; }
chmod 700 "$base"
if [ -d "$dir" ]; then
    if [ "$(cat "$dir/token" 2>/dev/null)" != "$token" ] && [ "$(age)" -lt "$silent" ]; then
        cat "$dir/holder" >&2; exit 7
    fi
    forget
fi
leftover
mkdir "$dir" 2>/dev/null || { cat "$dir/holder" >&2; exit 7; }
{
    mkdir "$dir/jobs" "$dir/journal" && date +%s > "$dir/beat" && printf '%s\n' "$holder" > "$dir/holder" \
        && printf '%s\n' "$token" > "$dir/token" && [ "$(cat "$dir/token")" = "$token" ]
} 2>/dev/null || { rm -rf "$dir"; echo "$base cannot be written (disk full?)" >&2; exit 8; }
"""
)
"""Take the machine; arguments: directory, token, holder, seconds of silence. Status 7: somebody has it."""

GUARD = (
    COMMON
    + r"""
trap '' HUP INT TERM PIPE
silent=$2
mine="$$ $(born $$)"
# Who finds no guard takes the machine.
{ printf '%s\n' "$mine" > "$dir/guard" && [ "$(cat "$dir/guard")" = "$mine" ]; } 2>/dev/null \
    || { echo "$dir cannot be written (disk full?)"; exit 1; }
# A cable that is cut does not end our input. Time is counted, as the clock may be set.
(
    quiet=0 last=$(cat "$dir/beat" 2>/dev/null)
    while sleep 5; do
        [ "$(cat "$dir/guard" 2>/dev/null)" = "$mine" ] || exit 0
        beat=$(cat "$dir/beat" 2>/dev/null)
        if [ "$beat" = "$last" ]; then quiet=$((quiet + 5)); else quiet=0; fi
        last=$beat
        if [ "$quiet" -ge "$silent" ]; then forget; kill -s KILL $$; exit 0; fi
    done
) >/dev/null 2>&1 &
watch=$!
echo ready
while read -r line; do
    date +%s 2>/dev/null 1<> "$dir/beat"  # in place, which a full disk allows
done
# Our input is at its end: whoever holds the machine is gone.
kill "$watch" 2>/dev/null
forget >/dev/null 2>&1
"""
)
"""Runs as long as the run does, and takes everything back when that ends without a word; arguments:
directory, seconds of silence."""

RELEASE = (
    COMMON
    + r"""
known "$@"
forget
"""
)
"""Take everything back and let others have the machine; arguments as of `RESTORE`. Prints troubles."""

AGAIN = (
    COMMON
    + r"""
[ "$(cat "$dir/token" 2>/dev/null)" = "$2" ] && alive "$dir/guard" || exit 1
printf '%s\n' "$3" > "$dir/holder"
"""
)
"""Whether we still have the machine, now for something else; arguments: directory, token, holder."""

RESTORE = (
    COMMON
    + r"""
known "$@"
restore "$dir"
for file in "$dir"/* "$dir"/jobs/*; do
    case ${file##*/} in token | holder | beat | guard | journal | jobs | *.sh) ;; *) rm -f "$file" ;; esac
done
"""
)
"""Take everything back, and keep the machine; arguments: directory, token, the commands that take changes
back as far as whoever asks knows them, the newest first. Prints troubles."""

HOLDER = (
    COMMON
    + r"""
[ -d "$dir" ] && [ "$(cat "$dir/token" 2>/dev/null)" != "$3" ] && [ "$(age)" -lt "$2" ] && cat "$dir/holder"
exit 0
"""
)
"""Script that says which other process has the machine; arguments: directory, seconds of silence,
own token.
"""

CLEAN = (
    COMMON
    + r"""
is_ours || exit 0
leftover
[ -d "$dir" ] || exit 0
if [ "$(age)" -lt "$2" ]; then cat "$dir/holder" >&2; exit 7; fi
cat "$dir/holder"
forget
"""
)
"""Take back what a crash left; arguments: directory, seconds of silence. Prints whose it was."""

WRITE = (
    COMMON
    + r"""
file=$2; value=$3
quoted() { printf %s "$1" | sed "s/'/'\\\\''/g; s/.*/'&'/"; }
[ -e "$file" ] || { echo "No such file or directory" >&2; exit 2; }
old=$(tr '\n\t' '  ' < "$file") || exit 2
back="printf %s $(quoted "${old% }") | tee $(quoted "$file") >/dev/null"
note "$back" || exit 2
printf '%s\n' "$back"
said=$(printf %s "$value" | tee "$file" 2>&1 >/dev/null) || { echo "${said##*: }" >&2; exit 2; }
"""
)
"""Write a file of settings; arguments: directory, file, value. Prints the command that takes it back."""

CHANGE = (
    COMMON
    + r"""
undo=$2; shift 2
note "$undo" || exit 2
exec "$@"
"""
)
"""Run a command that changes something; arguments: directory, what takes it back, words."""

JOB = (
    COMMON
    + r"""
name=$2; limit=$3; at=$4; shift 4
cd "$dir" || exit 9
(
    exec </dev/null >"$name.out" 2>"$name.err"
    if [ "$at" != 0 ]; then
        clock=$name.clock
        sleep "$(awk -v at="$at" -v now="$(now)" 'BEGIN { d = at - now / 1e9; print (d > 0 ? d : 0) }')"
    fi
    exec timeout -s INT -k 2 "$limit" "$@"
) &
written "jobs/$name" $! || { kill -s KILL -- "-$!"; kill -s KILL $!; exit 9; } 2>/dev/null
"""
)
"""Start a program; arguments: directory, name, seconds it may take, when (s since 1970, or 0), words."""

CONVERSE = (
    COMMON
    + r"""
name=$2; limit=$3; shift 3
written "$dir/jobs/$name" $$ || exit 9
exec timeout -k 2 "$limit" "$@"
"""
)
"""Run a program with the script's input and output; arguments: directory, name, seconds allowed, words."""

GET = r"""
cp "$1" "$1.sent" || exit 1
PATH=$PATH:/sbin:/usr/local/bin
sum() { sha256sum 2>/dev/null < "$1" || sha256 -q 2>/dev/null < "$1" || openssl dgst -r -sha256 < "$1"; }
sum "$1.sent" | cut -c 1-64
cat "$1.sent"
rm -f "$1.sent"
"""
"""Print a file's SHA-256 and the file; argument: its path. A program may be writing it."""

SIGNAL = (
    COMMON
    + r"""
signal=$2; shift 2
for name; do
    if alive "$dir/jobs/$name"; then kill -s "$signal" "$pid" 2>/dev/null; fi
done
exit 0
"""
)
"""Send a signal to programs; arguments: directory, signal, names."""

AWAIT = (
    COMMON
    + r"""
left=$2; shift 2
while [ "$left" -gt 0 ]; do
    some=
    for name; do if alive "$dir/jobs/$name"; then some=$name; fi; done
    [ -n "$some" ] || exit 0
    sleep 0.05; left=$((left - 50))
done
echo "$some"
exit 1
"""
)
"""Wait for programs to end; arguments: directory, milliseconds, names. Prints one that goes on."""
