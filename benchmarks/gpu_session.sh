#!/usr/bin/env bash
# One visit to a GPU: its tests, the sanitizers, the suites; a failing step does not stop the rest.
#
#     benchmarks/gpu_session.sh [STEP ...]
#
# STEP: launch elementwise reduce permute gemm contraction training
#      tests examples memcheck racecheck initcheck; all by default, in this order.
# OUT: folder that receives summary.txt and session.tar.gz (logs, results, README.md of benchmarks);
#      default build/gpu_session.
# BUDGET_S: seconds for everything, 540 by default. A step has a limit of its own, below.
# SANITIZE_K: pytest -k expression of the sanitizer runs; by default one dtype of what has many.
#      A tool runs once for each file of tests, all side by side; of the file of every op once for
#      each backend. The tools follow each other.
# SANITIZE_S: seconds for each sanitizer, 130 by default.
# PYTHON: the interpreter, python3 by default. WORKERS: processes of the tests, 8 by default.

set -u
cd "$(dirname "$0")/.." || exit 1
OUT=${OUT:-build/gpu_session}
BUDGET_S=${BUDGET_S:-540}
PYTHON=${PYTHON:-python3}
WORKERS=${WORKERS:-8}
SANITIZE_S=${SANITIZE_S:-130}
SANITIZE_K=${SANITIZE_K:-"f32 or every_backend or one_by_one or sixteen or strides or parallel_nodes"}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
LOGS=$(mktemp -d)
END=$((SECONDS + BUDGET_S - 5))
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
STEPS=("$@")
[ ${#STEPS[@]} -gt 0 ] || STEPS=(launch elementwise reduce permute gemm contraction training tests examples memcheck racecheck initcheck)

pack() {
    mkdir -p "$LOGS/results"
    cp -r benchmarks/results/. "$LOGS/results/" 2>/dev/null
    cp benchmarks/README.md "$LOGS/README.md"
    sort -s -n -k1,1 "$LOGS"/*.line 2>/dev/null | cut -d' ' -f2- >"$OUT/summary.txt"
    tar -czf "$OUT/session.tar.gz.part" -C "$LOGS" . && mv "$OUT/session.tar.gz.part" "$OUT/session.tar.gz"
}

# finish NUMBER NAME STATUS SECONDS: one line of the summary.
finish() {
    local said
    case $2 in
        example-*) said=$(tail -n 1 "$LOGS/$2.log" | cut -c1-100) ;;
        tests | *check-*)
            said=$(grep -aE '(passed|failed|error|no tests ran).* in [0-9.]+|SUMMARY:' "$LOGS/$2.log" | tail -n 2 | tr '\n' ' ')
            [ -n "$said" ] || said="$(grep -aE '\[ *[0-9]+%\]' "$LOGS/$2.log" | tail -n 1 | grep -oE '[0-9]+%') done, $(grep -acE '^========= (Error|Invalid|Uninit|.*[Hh]azard)' "$LOGS/$2.log") reports" ;;
        *)
            said=$(grep -aE '^[0-9]+ s, [0-9]+ cases failed' "$LOGS/$2.log" | tail -n 1)
            said="$said; $(grep -acF '| **no** |' "$LOGS/$2.log") bounds missed" ;;
    esac
    local word=ok
    [ "$3" -eq 0 ] || word="status $3"
    [ "$3" -ne 124 ] && [ "$3" -ne 137 ] || word="timed out"
    printf '%s %-24s %-10s %4d s  %s\n' "$1" "$2" "$word" "$4" "$said" >"$LOGS/$1-$2.line"
}

# step NUMBER NAME LIMIT_S COMMAND...: runs it within what is left of the time.
step() {
    local number=$1 name=$2 limit=$3 left=$((END - SECONDS)) begin=$SECONDS
    shift 3
    [ "$left" -ge "$limit" ] || limit=$left
    if [ "$limit" -lt 8 ]; then
        printf '%s %-24s %-10s %4d s  %s\n' "$number" "$name" "not run" 0 "no time left" >"$LOGS/$number-$name.line"
        return
    fi
    echo "== $name (at most $limit s): $*" >"$LOGS/$name.log"
    timeout -k 3 $((limit - 3)) "$@" >>"$LOGS/$name.log" 2>&1
    finish "$number" "$name" $? $((SECONDS - begin))
    echo "== $name done after $SECONDS s: $(cut -d' ' -f2- "$LOGS/$number-$name.line")"
}

wants() {
    local each
    for each in "${STEPS[@]}"; do [ "$each" != "$1" ] || return 0; done
    return 1
}

# The suites first: what tests leave running would disturb the clock.
number=1
for suite in launch:85 elementwise:60 reduce:75 permute:100 gemm:75 contraction:180 training:60; do
    if wants "${suite%%:*}"; then
        step "$number" "${suite%%:*}" "${suite##*:}" "$PYTHON" -m benchmarks "${suite%%:*}"
        pack
    fi
    number=$((number + 1))
done

if wants tests; then
    parallel=()
    if "$PYTHON" -c 'import xdist' 2>/dev/null; then parallel=(-n "$WORKERS" --dist worksteal); fi
    # -v: a run that is cut off has named what failed by then.
    step 8 tests 300 "$PYTHON" -m pytest -v -p no:cacheprovider -p no:benchmark --require-gpu \
        tests/gpu --tb=short --durations=8 -rfE "${parallel[@]}"
    pack
fi

if wants examples; then
    for example in xor coupled_cluster digits characters; do
        step 9 "example-$example" 60 env SOFTCUDA_CONFIG=benchmarks/cuda.soft "$PYTHON" "examples/$example.py" --device cuda &
    done
    wait
    pack
fi

number=10
CUDA_BACKENDS="cuda_naive cuda_elementwise cuda_reduce cuda_tiled cuda_contract cuda_permute"
for tool in memcheck racecheck initcheck; do
    if wants "$tool"; then
        extra=()
        [ "$tool" != memcheck ] || extra=(--leak-check no --report-api-errors no) # the driver is asked of addresses it does not know
        for file in $(grep -l 'mark\.sanitize' tests/gpu/test_*.py); do
            part=$(basename "$file" .py)
            part=${part#test_}
            shares=("")
            [ "$part" != cuda_every_op ] || shares=($CUDA_BACKENDS)
            for share in "${shares[@]}"; do
                step "$number" "$tool-$part${share:+-$share}" "$SANITIZE_S" compute-sanitizer --tool "$tool" "${extra[@]}" \
                    --error-exitcode 9 --print-limit 20 \
                    "$PYTHON" -m pytest -q -p no:cacheprovider -p no:benchmark --require-gpu "$file" \
                    -m "sanitize and not slow" -k "($SANITIZE_K)${share:+ and $share}" --tb=short &
            done
        done
        wait
    fi
    number=$((number + 1))
done

pack
for log in "$LOGS"/*.log; do
    case $log in
        */tests.log | *check-*.log)
            echo "-- $(basename "$log")"
            grep -aE '^(FAILED|ERROR) |^\[gw[0-9]+\] \[ *[0-9]+%\] (FAILED|ERROR)|=========  *(Error|Invalid|Uninit|Race|Warning)' "$log" |
                sed 's/^\[gw.*%\] //; s/ - .*//; s/ *$//' | cut -c1-180 | sort -u | head -n 25 ;;
        *)
            echo "-- $(basename "$log")"
            grep -aE '(^\| .*(\*\*no\*\*|yes|not measured) \|$)|: failed: |cannot do this case' "$log" |
                cut -c1-220 ;;
    esac
done
echo
echo "step                     result       time  said"
cat "$OUT/summary.txt"
rm -rf "$LOGS"
! grep -qvE '^[a-z_-]+ +ok ' "$OUT/summary.txt"
