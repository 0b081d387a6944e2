#!/usr/bin/env bash
# image.sh SHARE USER COMMAND...: runs the command of an image in its file system SHARE/root, which
# is read-only, as its user. Data and temporary files have mounts of their own, as in a cluster.
set -euo pipefail
share=$1 user=$2
shift 2
. "$share/service.sh"
root=$share/root
log=$share/log

mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o "mode=0700,uid=${user%:*},gid=${user#*:}" tmpfs "$root/var/lib/thalweg"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
! touch "$root/etc/written" 2> /dev/null || fail "the file system can be written"
[ "${user%:*}" -ge 1000 ] || fail "the user $user is one of the system"

chroot --userspec="$user" "$root" "$1" --version
setpriv --no-new-privs --bounding-set=-all,+setuid,+setgid,+sys_chroot --inh-caps=-all \
    chroot --userspec="$user" "$root" "$@" > "$log" 2>&1 &
main=$!
wait_until_ready
[ "$(awk '/^Uid:/ { print $2 }' "/proc/$main/status")" = "${user%:*}" ] || fail "the user"
kill -TERM "$main"
wait "$main" || fail "the server ends with $?"
[ -s "$root/var/lib/thalweg/FORMAT" ] || fail "the server wrote no data"
echo "shown: the image runs as $user on a read-only file system"
