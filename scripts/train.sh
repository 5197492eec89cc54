#!/usr/bin/env bash
exec "$(dirname "$0")/fairseq-ext" train "$@"
