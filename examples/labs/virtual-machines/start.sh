#!/bin/sh
# Starts three virtual machines in QEMU, without KVM: sender a (Linux 6.1), router r and receiver b (6.12), where image.sh has
# made their disk. No rights are needed. They are up in a minute on two idle processors; kill $(cat *.pid) ends them.
#
#     a eth1 10.1.0.1 --- 10.1.0.254 eth1 r eth2 10.2.0.254 --- 10.2.0.1 eth1 b      eth0: SSH, ports 2211, 2212, 2213 here
set -eu

# name, part of the kernel's name, port here, words for the kernel, a socket for each further interface
machine() {
    name=$1 kernel=$(basename "$(ls vmlinuz-$2*-cloud-amd64)") port=$3 words=$4
    shift 4
    interfaces= number=0
    for socket; do
        number=$((number + 1))
        interfaces="$interfaces -netdev stream,id=n$number,addr.type=unix,$socket -device virtio-net-pci,netdev=n$number"
    done
    # shellcheck disable=SC2086  # words on purpose
    qemu-system-x86_64 -accel tcg -smp 1 -m 384M -nodefaults -display none -no-reboot -daemonize -pidfile "$name.pid" \
        -kernel "$kernel" -initrd "initrd.img-${kernel#vmlinuz-}" -serial "file:$name.log" \
        -append "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet lab.name=$name lab.address=eth0,10.0.2.15/24 $words" \
        -drive file=disk.img,format=raw,if=virtio,snapshot=on \
        -netdev "user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" -device virtio-net-pci,netdev=n0 $interfaces
}

rm -f a.socket b.socket
machine r 6.12 2213 "lab.address=eth1,10.1.0.254/24 lab.address=eth2,10.2.0.254/24 lab.forward" \
    server=on,addr.path=a.socket server=on,addr.path=b.socket
machine a 6.1. 2211 "lab.address=eth1,10.1.0.1/24 lab.route=10.2.0.0/24,10.1.0.254" server=off,addr.path=a.socket
machine b 6.12 2212 "lab.address=eth1,10.2.0.1/24 lab.route=10.1.0.0/24,10.2.0.254" server=off,addr.path=b.socket
