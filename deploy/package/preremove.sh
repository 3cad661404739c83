#!/bin/sh
# Before a removal (dpkg: remove, rpm: 0), and not before an upgrade.
set -e
case "$1" in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now lumenhook.service lumenhook-backup.timer
    fi
    ;;
esac
