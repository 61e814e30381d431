#!/bin/sh
# Runs each fuzz target for a while: fuzz.sh TIME [NAME], NAME being a regular expression of targets. What fails is kept
# by Go as a seed in testdata/fuzz of its package, and fails `make test` from then on.
set -eu

time=${1:-30s}
want=${2:-.}
go=${GO:-go}

failed=
for dir in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
  for target in $($go test -list '^Fuzz' "$dir" | grep '^Fuzz' | grep -e "$want" || :); do
    echo "==> $dir $target"
    # Coverage is a little different each time, so to make an input smaller could take all of the time.
    $go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 50x -parallel "${FUZZ_WORKERS:-$(nproc)}" "$dir" || failed="$failed $dir:$target"
  done
done
if [ -n "$failed" ]; then
  echo "fuzz: failed:$failed" >&2
  exit 1
fi
