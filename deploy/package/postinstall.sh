#!/bin/sh
# After an installation or an upgrade. It never starts a stopped service.
set -e
systemd-sysusers lumenhook.conf
install -d -o lumenhook -g lumenhook -m 0700 /var/lib/lumenhook /var/backups/lumenhook
install -d -o lumenhook -g lumenhook -m 0755 /var/cache/lumenhook
# RPC addresses often contain a key.
if [ -e /etc/lumenhook/run.yaml ]; then
  chgrp lumenhook /etc/lumenhook/run.yaml
  chmod o= /etc/lumenhook/run.yaml
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart lumenhook.service
fi
