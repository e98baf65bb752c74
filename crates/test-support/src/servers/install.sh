# Installs the packages named by the arguments on Debian and Ubuntu, as root, without starting a system service.
set -eu
export DEBIAN_FRONTEND=noninteractive
# One installation at a time; the lock is on the folder itself, so that no file stays behind.
exec 9</var/lib/dpkg
flock 9

policy=/usr/sbin/policy-rc.d
saved=$policy.before-test-servers
restore() {
  rm -f "$policy"
  if [ -e "$saved" ]; then mv "$saved" "$policy"; fi
}
# An earlier run was killed before it could restore the file.
if [ -e "$saved" ]; then restore; fi
trap restore EXIT
trap 'exit 1' HUP INT TERM
if [ -e "$policy" ]; then mv "$policy" "$saved"; fi
# Packages ask this script before they start a service; 101 is a no.
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

apt-get update
apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
