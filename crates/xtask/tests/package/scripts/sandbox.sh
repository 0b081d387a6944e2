#!/usr/bin/env bash
# sandbox.sh KIND SHARE SCRIPT [ARGUMENT]...: runs a script of SHARE, in new namespaces, on a copy
# of this machine's file system that is gone afterwards. Ends with 77 where that cannot be done.
set -euo pipefail
kind=$1 share=$2 script=$3
shift 3
PATH=$PATH:/usr/sbin:/sbin

impossible() {
    echo "this machine cannot: $1"
    exit 77
}

mount --make-rprivate / || impossible "private mounts"
ip link set lo up || impossible "a network of its own"
if [ "$kind" = image ]; then
    exec bash "$share/$script" "$share" "$@"
fi

work=$share/work
mkdir -p "$work"
mount -t tmpfs tmpfs "$work" || impossible "mounting tmpfs"
mkdir "$work/upper" "$work/work" "$work/root"
root=$work/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$root" ||
    impossible "overlays"

if [ "$kind" = chroot ]; then
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --bind "$share" "$root/mnt"
    exec chroot "$root" bash "/mnt/$script" "$@"
fi

# Only the unit below is wanted, none of this machine's services.
rm -rf "$root"/etc/systemd/system/*.wants
: > "$root/etc/machine-id"
cat > "$root/etc/systemd/system/sandbox.service" << 'UNIT'
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash -c 'bash /mnt/run.sh > /mnt/output 2>&1; echo $? > /mnt/status'
ExecStopPost=/bin/systemctl poweroff --force
UNIT
echo "exec bash /mnt/$script $*" > "$share/run.sh"
timeout 300 systemd-nspawn --register=no --keep-unit --quiet --directory="$root" \
    --bind="$share:/mnt" --boot systemd.unit=sandbox.service > "$share/boot" 2>&1 || true
if [ ! -f "$share/status" ]; then
    tail -n 5 "$share/boot"
    impossible "booting systemd in a container"
fi
cat "$share/output"
exit "$(cat "$share/status")"
