#!/bin/sh
# Builds the source distributions and wheels for Linux into dist/, with their checksums: sh packaging/wheels.sh [TARGET...]
# Targets are Rust's: x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu, x86_64-unknown-linux-musl. Zig is the linker, so
# that a wheel asks for no newer C library than the oldest that is common (glibc 2.17, musl 1.2).
# The same commit gives the same bytes: no path of this machine, no time but that of the commit.
set -eu
cd "$(dirname "$0")/.."
tools=${WHEEL_TOOLS:-.tools/wheels}
[ -x "$tools/bin/wheel" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --require-hashes -r packaging/wheels.lock; }
tools=$(cd "$tools/bin" && pwd)

# A release is the commit with the tag of its version; any other commit is named by what is built from it.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
commit=$(git describe --always --tags --dirty --abbrev=12 --match 'v[0-9]*')
case $commit in
    "v$version" | *-*) ;;
    v*) echo "the tag $commit is not v$version, the version in Cargo.toml" >&2; exit 1 ;;
esac

make engine # whose plan and parser write a part of what follows, without the flags below: that would build it anew
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
home=${CARGO_HOME:-$HOME/.cargo}
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=/cwndlab --remap-path-prefix=$home=/cargo --remap-path-prefix=$(rustc --print sysroot)=/rust"
PYO3_CONFIG_FILE=$PWD/crates/python/pyo3-config.txt
export SOURCE_DATE_EPOCH RUSTFLAGS PYO3_CONFIG_FILE
umask 022

# What Git does not keep: the live lab's engine and templates, the manual page, the commit.
rm -f .stamps/web-release
make web
manual=packaging/installed/data/share/man/man1
trap 'rm -rf python/cwndlab/commit.txt packaging/installed/data/share/man' EXIT
mkdir -p $manual
.venv/bin/python docs/commands.py --man > $manual/cwndlab.1
echo "$commit" > python/cwndlab/commit.txt

# musl's library has the name that Alpine gives it, not Zig's.
name_musl() {
    unpacked=$(mktemp -d)
    wheel unpack --dest "$unpacked" "$1"
    patchelf --replace-needed libc.so "libc.musl-$2.so.1" "$unpacked"/*/cwndlab/_native*.so
    wheel pack --dest-dir dist "$unpacked"/*
    rm -r "$unpacked"
}

PATH="$tools:$PATH"
maturin sdist --out dist
[ $# -gt 0 ] || set -- x86_64-unknown-linux-gnu
flags=$RUSTFLAGS
for target; do
    ! command -v rustup >/dev/null || rustup --quiet target add "$target"
    processor=${target%%-*}
    case $target in
        # A library that Python loads takes musl from the system it is on.
        *musl) system=musllinux_1_2; RUSTFLAGS="$flags -C target-feature=-crt-static" ;;
        *) system=manylinux_2_17; RUSTFLAGS=$flags ;;
    esac
    maturin build --release --locked --strip --zig --target "$target" --compatibility $system --out dist
    built=$(ls dist/cwndlab-"$version"-*"${system}_$processor"*.whl)
    case $target in *musl) name_musl "$built" "$processor" ;; esac
    auditwheel show "$built" | tr '\n' ' ' | grep -q "platform tag: *\"${system}_$processor\"" ||
        { auditwheel show "$built" >&2; exit 1; }
done
(cd packages/teacup && python -c 'from flit_core import buildapi; buildapi.build_wheel("../../dist"); buildapi.build_sdist("../../dist")')
.venv/bin/python packaging/sbom.py "$@" > "dist/cwndlab-$version.cdx.json"
cd dist
chmod 644 -- *.whl *.tar.gz *.cdx.json
sha256sum -- *.whl *.tar.gz *.cdx.json > SHA256SUMS
cat SHA256SUMS
