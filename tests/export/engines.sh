#!/usr/bin/env bash
# The databases and the object store that calcli is tested on, beside those that come with its packages, for the virtual
# environment that is active: the tests start the servers themselves. What cannot be fetched is no defect of calcli: its
# tests are skipped by name.
set -uo pipefail

servers() {
    timeout 300 apt-get update
    DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y --no-install-recommends postgresql mariadb-server
}
servers >/dev/null 2>&1 || echo "!!! PostgreSQL and MariaDB were not installed: apt-get failed"
for package in 'psycopg[binary]' pymysql chdb azure-storage-blob; do
    timeout 600 python -m pip install "$@" "$package" >/dev/null || echo "!!! $package was not installed"
done
emulator=$VIRTUAL_ENV/fakesnow  # it asks for other versions of what calcli needs
{ python -m venv "$emulator" && timeout 600 "$emulator/bin/pip" install fakesnow 'snowflake-connector-python<4.1'; } \
    >/dev/null 2>&1 || { rm -rf "$emulator" && echo "!!! fakesnow was not installed"; }
timeout 600 npm install --global --prefix "$VIRTUAL_ENV" azurite >/dev/null 2>&1 || echo "!!! azurite was not installed"
exit 0
