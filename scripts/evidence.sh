#!/bin/sh
# Writes docs/evidence.md: what was checked, how often, and with which result, from the logs of one run. `make evidence` runs it.
# It takes about an hour, and ends with an error when something that it ran has failed. EVIDENCE_PAGE is where else to write it.
set -eu
cd "$(dirname "$0")/.."
seconds=${TORTURE_SECONDS:-270}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
failed=0

# run NAME ARGS: a log of tests, kept by name.
run() {
  name=$1
  shift
  echo "evidence: $name" >&2
  go test -count=1 -v "$@" >"$logs/$name" 2>&1 || {
    echo "evidence: $name has failed:" >&2
    grep -e '^ *--- FAIL' -e '_test.go:' -e '^FAIL' -e '^panic:' "$logs/$name" | tail -20 >&2
    : >"$logs/$name.failed"
    failed=1
  }
}

# count NAME PATTERN: lines of a log.
count() { grep -c -e "$2" "$logs/$1" || true; }

# verdict NAME: ok, or how many tests failed. What wasn't built, was cut off by its time or never began has failed, too, and
# shows no test that did.
verdict() {
  n=$(count "$1" '^ *--- FAIL')
  if [ "$n" -gt 0 ]; then
    echo "$n failed"
  elif [ -e "$logs/$1.failed" ] || ! grep -q -e '^ *--- PASS' -e '^PASS' "$logs/$1" || grep -q 'no tests to run' "$logs/$1"; then
    echo "not carried out"
  else
    echo ok
  fi
}

# sum NAME WORDS: the sum of the numbers before words, as in "30 executions".
sum() { sed -n "s/.*[^0-9]\([0-9][0-9]*\) $2.*/\1/p" "$logs/$1" | awk '{ n += $1 } END { print n + 0 }'; }

# told STORE NAME: a number of the torture's report on a store.
told() { sed -n "/\"store\":\"$1\"/s/.*\"$2\":\([0-9][0-9]*\)[,}].*/\1/p" "$logs/report" | grep . || echo 0; }
: >"$logs/report" # which is written by what may never begin

run model ./model
run seeded -run 'TestSeededBugs|TestSeededBugsOverWire' ./storetest
run sqlite -run 'TestConformance' ./store/sqlite
run postgres -run 'TestConformance' ./store/postgres
run mysql -run 'TestConformance' ./store/mysql
run redis -run 'TestConformance' ./store/redis
run etcd -run 'TestConformance' ./store/etcd
run zookeeper -run 'TestConformance' ./store/zookeeper
make -s build
export ONERUN_TEST_BINARY="$PWD/bin/onerun" TORTURE_SECONDS="$seconds"
rounds=200 # in each of three lanes
TORTURE_ROUNDS=$rounds run embedded -run 'TestTorture$' ./cmd/internal/cli
TORTURE_REPORT="$logs/report" run torture -timeout=120m -parallel 3 -run 'TestThreeHosts' ./cmd/onerun-full
run broken -timeout=60m -run 'TestBrokenBuilds' ./cmd/onerun-full
TORTURE_SECONDS=60 run schedulers -timeout=60m -run 'TestThreeSchedulers' ./cmd/onerun-full
DAY_SEEDS=20 run days -run 'TestDay' ./internal/scheduler
DAY_HOURS=4 run realday -timeout=60m ./internal/schedday
noise=15s # for each target
echo "evidence: fuzz" >&2
sh scripts/fuzz.sh "$noise" >"$logs/fuzz" 2>&1 || {
  echo "evidence: fuzz has failed:" >&2
  grep -e '^ *--- FAIL' -e '^fuzz: failed' "$logs/fuzz" | tail -20 >&2
  : >"$logs/fuzz.failed"
  failed=1
}
inputs=$(awk '/^==>/ { n += last; last = 0 } /execs: / { sub(/.*execs: /, ""); last = $1 } END { print n + last + 0 }' "$logs/fuzz")

{
  cat <<'HEAD'
# Evidence

What was checked, how often, and with which result. `make evidence` has written this page from the logs of one run of its own;
each line says what to type to repeat it.

HEAD
  cat <<TABLE
| what | checked | result | repeat |
| --- | --- | --- | --- |
| The protocol as a model: no two owners, no success executed again, no outcome lost, … ([model](../model/README.md)) | $(count model 'states, stored') searches, $(sed -n 's/.* \([0-9]*\) states, stored.*/\1/p' "$logs/model" | awk '{ n += $1 } END { print n + 0 }') states | $(verdict model) | \`make model\` |
| Each protective step taken out of the model | $(count model '^ *--- PASS: TestMutants/') searches without a step or with an assumption broken, each with its counterexample | $(verdict model) | \`make model\` |
| Bugs put into a store on purpose, which the suite of the stores has to catch | $(count seeded '^    --- PASS: ') bugs | $(verdict seeded) | \`go test ./storetest\` |
TABLE
  for store in sqlite postgres mysql redis etcd zookeeper; do
    echo "| The suite on $store | $(count "$store" '^    --- PASS: ') cases | $(verdict "$store") | \`go test -run TestConformance ./store/$store\` |"
  done
  echo "| Wrappers, guards and jobs on the embedded store killed at random | $((3 * rounds)) rounds | $(verdict embedded) | \`TORTURE_ROUNDS=$rounds go test -run 'TestTorture\$' ./cmd/internal/cli\` |"
  for store in sqlite postgres mysql redis etcd zookeeper; do
    echo "| Three hosts on $store for $(told "$store" seconds) s | $(told "$store" contended) contended claims of $(told "$store" starts) starts, $(told "$store" executions) executions, $(told "$store" struck) faults; $(told "$store" overlaps) overlaps, $(told "$store" lost) outcomes lost; $(told "$store" operations) steps of histories in an order that the rules allow | $(verdict torture) | \`make torture\` |"
  done
  echo "| The same on builds with one protection removed: a lock that nobody asks for, a success that is executed again, a lease that stops no job, an end that isn't kept | $(count broken '^    --- PASS: ') of $(count broken '=== RUN   TestBrokenBuilds/') found | $(verdict broken) | \`make torture\` |"
  echo "| Three schedulers on one PostgreSQL for 60 s: killed, frozen, reloaded, the server killed | $(sum schedulers executions) executions, each slot once or with a reason | $(verdict schedulers) | \`TORTURE_SECONDS=60 go test -run TestThreeSchedulers ./cmd/onerun-full\` |"
  echo "| Days with a change of the clock, three schedulers under harm, in compressed time | $(count days '^    --- PASS: TestDay/') days | $(verdict days) | \`DAY_SEEDS=20 go test -run TestDay ./internal/scheduler\` |"
  echo "| Four hours with a change of the clock, three schedulers that are processes, on one PostgreSQL, in compressed time | $(sum realday slots) slots, each with a run or a reason; $(sum realday harms) harms | $(verdict realday) | \`DAY_HOURS=4 go test ./internal/schedday\` |"
  echo "| Noise for each thing that reads what it didn't write: no crash, no hang, memory within a bound | $(count fuzz '^==> ') readers, $inputs inputs | $(verdict fuzz) | \`make fuzz FUZZTIME=$noise\` |"
  cat <<'HEAD'

Faults of the torture, by kind and store:

| fault | sqlite | postgres | mysql | redis | etcd | zookeeper |
| --- | --- | --- | --- | --- | --- | --- |
HEAD
  grep -o '"faults":{[^}]*}' "$logs/report" | grep -o '"[^":]*":[0-9]' | cut -d '"' -f 2 | sort -u | while read -r fault; do
    line="| $fault |"
    for store in sqlite postgres mysql redis etcd zookeeper; do line="$line $(told "$store" "$fault") |"; done
    echo "$line"
  done
  cat <<'TAIL'

A contended claim is that of a start that met another one for its key or its lock within its life. Operators press rerun, resolve, stop,
pause and resume meanwhile. The witness of the torture is a file that the jobs themselves write, and where the store can fence, a table; neither is onerun's word. The
exceptions, in which none of this can hold, are in [what is guaranteed](guarantees.md).

`onerun verify` makes the same kind of check on your own store and settings.
TAIL
} >"${EVIDENCE_PAGE:-docs/evidence.md}"
exit $failed
