#!/bin/sh
# Makes disk.img for QEMU: Debian 12 with its own kernel and that of Debian 13, and what testbed ssh needs of a machine.
# As root, in a directory of 3 GB; some minutes. Debian: apt install mmdebstrap e2fsprogs openssh-client
set -eu
mirror=http://deb.debian.org/debian
programs=iproute2,iperf3,ethtool,nftables,iputils-ping,tcpdump,procps,sudo

[ -f key ] || ssh-keygen -q -t ed25519 -N '' -f key
rm -rf disk && mmdebstrap --variant=minbase --format=directory \
    --include=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,udev,openssh-server,kmod,zstd,$programs \
    bookworm disk $mirror

# The newer kernel, and nothing else of Debian 13.
echo "deb $mirror trixie main" > disk/etc/apt/sources.list.d/trixie.list
cp /etc/resolv.conf disk/etc/resolv.conf
mount -t proc proc disk/proc
trap 'umount disk/proc' EXIT
chroot disk apt-get update -qq
kernel=$(chroot disk apt-cache search --names-only '^linux-image-6.12.*-cloud-amd64$' | cut -d' ' -f1 | sort -V | tail -n 1)
chroot disk apt-get install -y --no-install-recommends -o APT::Default-Release=bookworm "$kernel"
rm -rf disk/etc/apt/sources.list.d/trixie.list disk/var/lib/apt/lists disk/var/cache/apt disk/usr/share/doc disk/usr/share/man

# The words of the kernel's command line say what a machine is.
cat > disk/usr/local/sbin/lab <<'END'
#!/bin/sh
# lab.name=NAME lab.address=INTERFACE,ADDRESS/BITS lab.route=NETWORK,GATEWAY lab.forward
for word in $(cat /proc/cmdline); do
    value=${word#*=}
    case $word in
    lab.name=*) hostname "$value" ;;
    lab.address=*) ip link set "${value%,*}" up; ip address add "${value#*,}" dev "${value%,*}" ;;
    lab.route=*) ip route add "${value%,*}" via "${value#*,}" ;;
    lab.forward) echo 1 > /proc/sys/net/ipv4/ip_forward ;;
    esac
done
END
chmod 755 disk/usr/local/sbin/lab
cat > disk/etc/systemd/system/lab.service <<'END'
[Unit]
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/lab
[Install]
WantedBy=multi-user.target
END
chroot disk systemctl enable lab ssh
chroot disk systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer
mkdir -p -m 700 disk/root/.ssh
cp key.pub disk/root/.ssh/authorized_keys

umount disk/proc
trap - EXIT
cp disk/boot/vmlinuz-* disk/boot/initrd.img-* .
for port in 2211 2212 2213; do
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 disk/etc/ssh/ssh_host_ed25519_key.pub)"
done > known_hosts
rm -f disk.img && truncate -s 1G disk.img && mkfs.ext4 -q -O ^has_journal -d disk disk.img
rm -rf disk
