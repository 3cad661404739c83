#!/bin/sh
# After an installation or an upgrade. It never starts a stopped service.
set -e
systemd-sysusers lumenhook.conf
install -d -o lumenhook -g lumenhook -m 0700 /var/lib/lumenhook /var/backups/lumenhook
install -d -o lumenhook -g lumenhook -m 0755 /var/cache/lumenhook
# Not a file of the package, because dpkg would ask whether to replace it, and an upgrade without a
# terminal would fail.
mkdir -p /etc/lumenhook
[ -e /etc/lumenhook/run.yaml ] || cp /usr/share/lumenhook/run.yaml /etc/lumenhook/run.yaml
# RPC addresses often contain a key.
chgrp lumenhook /etc/lumenhook/run.yaml
chmod o= /etc/lumenhook/run.yaml
if [ "$1" = 1 ] || [ "$1" = configure ] && [ -z "$2" ]; then # not an upgrade
  echo "lumenhook: set the network in /etc/lumenhook/run.yaml, run"
  echo "  lumenhook install-clickhouse --cache-dir /var/cache/lumenhook"
  echo "and start the service: systemctl enable --now lumenhook"
  echo "The guide is /usr/share/doc/lumenhook/one-machine.md."
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart lumenhook.service
fi
