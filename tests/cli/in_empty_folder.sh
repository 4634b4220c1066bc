#!/usr/bin/env bash
# Runs one test script in a temporary folder.
set -euo pipefail
script=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export XDG_CACHE_HOME="$folder/.cache"  # what the user has there is left alone
bash "$script"
