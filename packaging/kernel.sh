#!/bin/sh
# Builds a kernel for testbed kernel of Debian's or Ubuntu's newest sources: kernel.sh CWNDLAB FOLDER. Where the sources or the compiler
# cannot be had, it says so and ends well. What was built before is not built again.
set -eu
cwndlab=$1
folder=$2

archive() { find /usr/src -maxdepth 1 -name 'linux-source-*.tar.*' 2>/dev/null | sort -V | tail -n 1; }

if [ -z "$(archive)" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    newest=$(apt-cache search --names-only '^linux-source-[0-9.]+$' | cut -d' ' -f1 | sort -V | tail -n 1)
    [ -z "$newest" ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "$newest" gcc make flex bison bc patch perl xz-utils bzip2 >/dev/null
fi
found=$(archive)
if [ -z "$found" ]; then
    echo 'no kernel: there is no /usr/src/linux-source-*.tar.* (Debian: apt install linux-source)' >&2
    exit 0
fi
tree=$(basename "$found")
tree=$folder/${tree%.tar.*}
if [ ! -f "$tree/Makefile" ]; then
    mkdir -p "$folder"
    tar -C "$folder" -xf "$found"
fi
"$cwndlab" kernel build "$tree"
