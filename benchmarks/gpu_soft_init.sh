#!/usr/bin/env bash
# One visit to a GPU for its profile: two sweeps and how far they agree, the report, the finding, and
# the placement of whole graphs by that profile. A failing step does not stop the rest.
#
#     benchmarks/gpu_soft_init.sh [STEP ...]
#
# STEP: sweep short diff report load placement training; these by default, about 9 minutes. `sweep` is
#      the default sweep (under 5 minutes), `short` one of --budget SHORT_S. `twice` is two sweeps of
#      the ops in FEW, 25 s each, and how far these agree.
# OUT: folder that receives everything; default build/gpu_soft_init. Of it
#        NAME.soft NAME.csv          belong into configs/
#        threshold.md NAME.svg NAME.html NAME.png   into docs/
#        placement.json training.json README.md     into benchmarks/ (results/NAME/)
#      and summary.txt tells what came of each step. A sweep that was interrupted goes on where it
#      ended when this is run again with the same OUT.
# NAME: name of the profile, nvidia-h200 by default. SHORT_S: 60 by default.
# PYTHON: the interpreter, python3 by default.
# DEVICE, OPTIONS: what is measured, cuda by default, and further options of both sweeps; for a trial:
#      DEVICE=cpu OPTIONS="--ops add,matmul --max-size 64" benchmarks/gpu_soft_init.sh sweep short diff

set -u
cd "$(dirname "$0")/.." || exit 1
OUT=${OUT:-build/gpu_soft_init}
NAME=${NAME:-nvidia-h200}
SHORT_S=${SHORT_S:-60}
PYTHON=${PYTHON:-python3}
DEVICE=${DEVICE:-cuda}
OPTIONS=${OPTIONS:-}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 SOFTCUDA_CONFIG=default
STEPS=("$@")
[ ${#STEPS[@]} -gt 0 ] || STEPS=(sweep short diff report load placement training)
: >"$OUT/summary.txt"

# step NAME LIMIT_S COMMAND...: runs it, keeps what it prints in NAME.log, adds a line to the summary.
step() {
    local name=$1 limit=$2 begin=$SECONDS status
    shift 2
    timeout -k 5 -s INT "$limit" "$@" >"$OUT/$name.log" 2>&1
    status=$?
    printf '%-10s status %3d %4d s  %s\n' "$name" "$status" $((SECONDS - begin)) \
        "$(tail -n 1 "$OUT/$name.log" | cut -c1-140)" | tee -a "$OUT/summary.txt"
    return $status
}

wants() {
    local each
    for each in "${STEPS[@]}"; do [ "$each" != "$1" ] || return 0; done
    return 1
}

# init FILE OPTION...: soft_init that goes on where an interrupted one ended.
init() {
    local file=$1
    shift
    [ ! -e "$file.samples" ] || set -- --resume "$@"
    # shellcheck disable=SC2086 - several words
    "$PYTHON" -m softcuda.tools.soft_init --output "$file" --device "$DEVICE" $OPTIONS "$@"
}
export -f init
export PYTHON DEVICE OPTIONS

suite() {
    "$PYTHON" -m benchmarks "$1"
    local status=$?
    cp benchmarks/results/"$NAME"/"$1".json benchmarks/README.md "$OUT"/ 2>/dev/null
    return $status
}
export -f suite
export OUT NAME

twice() {
    local each
    for each in one other; do
        init "$OUT/$each.soft" --force --ops "$FEW" --budget 25 || return
    done
    "$PYTHON" -m softcuda.tools.soft_init --diff "$OUT/one.soft" "$OUT/other.soft"
}
export -f twice
export FEW=${FEW:-add,relu,exp,gelu,where,cast,sum,max,softmax,matmul}

PROFILE="$OUT/$NAME.soft"
wants sweep && step sweep 330 bash -c 'init "$0"' "$PROFILE"
wants short && step short $((SHORT_S + 40)) bash -c 'init "$0" --budget "$1"' \
    "$OUT/short.soft" "$SHORT_S"
wants diff && step diff 30 "$PYTHON" -m softcuda.tools.soft_init --diff "$PROFILE" "$OUT/short.soft"
wants twice && step twice 70 bash -c twice
wants report && step report 90 "$PYTHON" -m softcuda.tools.soft_init report "$PROFILE" \
    --output "$OUT" --markdown threshold
wants load && step load 30 "$PYTHON" -m benchmarks.load_profile "$PROFILE"
if wants placement || wants training; then
    [ ! -e "$PROFILE" ] || cp "$PROFILE" "configs/$NAME.soft"
fi
wants placement && step placement 150 bash -c 'suite placement'
wants training && step training 120 bash -c 'suite training'

echo
grep -h "^wrote" "$OUT"/*.log
[ ! -e "$OUT/sweep.log" ] || echo "disqualified: $(grep -c '^disqualified' "$OUT/sweep.log")"
cat "$OUT/summary.txt"
! grep -qv 'status   0' "$OUT/summary.txt"
