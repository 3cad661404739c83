#!/bin/sh
# The data, the backups and the user stay.
set -e
if [ "$1" = purge ]; then
  rm -f /etc/lumenhook/run.yaml
  rmdir /etc/lumenhook 2>/dev/null || true
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
