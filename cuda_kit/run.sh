#!/usr/bin/env bash
# Runs on a machine with a GPU: all GPU tests, NVIDIA's compute-sanitizer over our kernels, training, then the
# benchmarks as JSON. Each stage can run alone. Closes with "N passed, N failed, N skipped". With 16 cores, checks that
# measure nothing run in parallel.
# usage: run.sh [--python PYTHON] [--out FOLDER] [doctor|tests|compile|sanitizer|train|bench]...
set -uo pipefail
TIMEFORMAT=%0R
kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=python3 out=$PWD/cuda-kit-results stages=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --python) python=$2 && shift 2 ;;
        --out) out=$2 && shift 2 ;;
        doctor | tests | compile | sanitizer | train | bench) stages+=("$1") && shift ;;
        *) sed -n 's/^# usage: /usage: /p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
    esac
done
[[ ${#stages[@]} -gt 0 ]] || stages=(doctor tests compile sanitizer train bench)
mkdir -p "$out"
out=$(cd "$out" && pwd)
python=$(command -v "$python") && python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
passed=0 failed=0 skipped=0

# ---- set-up ----

# LibTorch comes with the machine's Python. Only libraries that the machine lacks are taken from the kit, since Python
# also finds them in LD_LIBRARY_PATH.
setup() {
    local torch missing
    torch=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))') || {
        echo "[$python] expected a Python with torch, got none; pass --python" >&2
        exit 1
    }
    rm -rf "$out/lib" && mkdir -p "$out/lib"
    export STOKER_TORCH=$torch LD_LIBRARY_PATH=$kit/bin:$torch/lib:$out/lib
    for _ in 1 2 3 4; do # a library may need others
        missing=$(ldd "$kit"/bin/* "$out"/lib/* 2>/dev/null | awk '/not found/ {print $1}' | sort -u)
        for library in $missing; do
            [[ -e $kit/lib/$library ]] && ln -sf "$kit/lib/$library" "$out/lib/$library"
        done
    done
    export PATH=$kit/bin:$PATH
    if [[ -d $kit/data/mnist ]]; then export STOKER_SHARED_DATA=$kit/data; fi
    cd "$kit"
}

gpu_found=
has_gpu() {
    [[ -n $gpu_found ]] || gpu_found=$("$python" -c 'import torch; print(int(torch.cuda.is_available()))')
    [[ $gpu_found == 1 ]]
}

# Each check runs in a new process group, which an interrupt of this script ends.
set -m
declare -A running=() # by the check's name
stop() {
    local group
    for group in $(jobs -p); do
        kill -- "-$group" 2>/dev/null
    done
    exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM

# start NAME COMMAND...: its output goes to NAME.log.
start() {
    local name=$1
    shift
    { time "$@" >"$out/$name.log" 2>&1; } 2>"$out/$name.seconds" &
    running[$name]=$!
}

# finish NAME: waits for it and counts it.
finish() {
    local name=$1 result=passed
    wait "${running[$name]}" || result=FAILED
    echo "$result  $name ($(tail -n 1 "$out/$name.seconds") s)"
    if [[ $result == passed ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "the end of $out/$name.log:"
        tail -n 15 "$out/$name.log" | cut -c 1-300
    fi
}

check() { start "$@" && finish "$1"; }

# Checks that nothing waits for until finish_all, or if there are fewer cores until limit_started.
started=()
start_beside() { start "$@" && started+=("$1"); }
finish_all() {
    local name
    for name in "${started[@]}"; do
        finish "$name"
    done
    started=()
}
many_cores() { [[ $(nproc) -ge 16 ]]; }
limit_started() { many_cores || finish_all; }

skip() {
    skipped=$((skipped + 1))
    echo "skipped $1: $2"
}

# ---- stages ----

readonly MODEL=resnet50 BATCH=256
readonly LARGE="--model $MODEL --size 224 --batch $BATCH"

run_doctor() { check doctor stoker doctor; }

# Each program reports its cases in a file, which are counted one by one. train_test takes nearly all memory once.
run_tests() {
    local program programs counts reports=() running_tests=()
    programs=("$kit"/bin/*_test)
    for program in "${programs[@]##*/}"; do
        if [[ $program == train_test ]] || ! many_cores; then
            [[ ${#running_tests[@]} -eq 0 ]] || wait "${running_tests[@]}"
            running_tests=()
        fi
        rm -f "$out/$program.xml"
        "$kit/bin/$program" --gtest_filter='*Cuda*' --gtest_output="xml:$out/$program.xml" >"$out/$program.log" 2>&1 &
        running_tests+=($!)
    done
    wait "${running_tests[@]}"
    for program in "${programs[@]##*/}"; do
        grep -E '^\[  (FAILED|SKIPPED)' -A 3 "$out/$program.log" | cut -c 1-300
        reports+=("$out/$program.xml")
    done
    counts=$("$python" "$kit/sum_junit.py" "${reports[@]}")
    echo "tests: $counts"
    read -r -a counts <<<"${counts//,/}"
    passed=$((passed + counts[0])) failed=$((failed + counts[2])) skipped=$((skipped + counts[4]))
}

run_train() {
    has_gpu || { skip train "no GPU" && return; }
    check train-digits stoker train recipes/digits.toml --set device=cuda --out "$out/runs/digits"
    check train-digits-eager stoker train recipes/digits.toml --set device=cuda --set train.compile=none \
        --out "$out/runs/digits-eager"
    check eval-digits stoker eval "$out/runs/digits"
    check train-digits-on-device stoker train recipes/digits.toml --set device=cuda --set data.cache=device \
        --out "$out/runs/digits-on-device"
    check train-one-rank stoker train recipes/digits.toml --set device=cuda --set train.precision=fp32 \
        --set train.compile=none --set train.epochs=2 --out "$out/runs/one" --json
    check train-two-ranks stoker launch --nproc-per-node 2 -- stoker train recipes/digits.toml --set device=cuda:0 \
        --set train.precision=fp32 --set train.epochs=2 --out "$out/runs/two" --json
    check two-ranks-train-what-one-trains "$python" "$kit/same_losses.py" "$out/train-one-rank.log" \
        "$out/train-two-ranks.log"
    if [[ -d data/photos ]]; then
        local compile
        for compile in auto none; do
            check "train-photos-$compile" stoker train recipes/imagefolder_resnet18.toml --set device=cuda \
                --set data.train=data/photos --set "train.compile=$compile" --out "$out/runs/photos-$compile"
        done
        check predict-photos stoker predict "$out/runs/photos-auto" data/photos/c0 -o "$out/photos.csv"
    else
        skip train-photos "no data/photos in the kit"
    fi
}

# torch.compile takes minutes for the steps of `bench`, which finds in its cache what it has compiled once.
run_compile() {
    local mode
    has_gpu || { skip compile "no GPU" && return; }
    for mode in default reduce-overhead; do
        # shellcheck disable=SC2086 # words
        start_beside "compile-$mode" "$python" peers/step_pytorch.py $LARGE --precision bf16 --device cuda \
            --seconds 0.1 --compile "$mode"
        limit_started
    done
}

run_bench() {
    has_gpu || { skip bench "no GPU" && return; }
    local data=synth:digits
    [[ -d data/mnist ]] && data=data/mnist
    # shellcheck disable=SC2086 # words
    check "bench-step-$MODEL" stoker bench step $LARGE --precision bf16 --device cuda --rounds 1 --seconds 2 \
        --peer --python "$python" --peer-script peers/step_pytorch.py --json
    if [[ -d data/photos ]]; then
        # Fed from records: images_per_second next to those of bench-step-resnet50, whose batches are on the device.
        check pack-photos stoker pack data/photos "$out/photos.stk" --codec dct
        local on feed=(--set device=cuda --set "data.train=$out/photos.stk" --set "data.batch_size=$BATCH"
            --set data.epoch_samples=25600 --set train.epochs=2 --json)
        for on in cpu device; do
            check "bench-feed-$MODEL-$on" stoker train recipes/imagefolder_resnet18.toml "${feed[@]}" \
                --set "model.name=$MODEL" --set "data.decode_on=$on" --out "$out/runs/feed-$on"
        done
        check "bench-feed-$MODEL-pytorch" "$python" peers/feed_pytorch.py --data data/photos --model "$MODEL" \
            --batch "$BATCH" --steps 134 --warmup 70 # the workers prepare 64 ahead
        # One worker cannot decode for the steps, but it can leave the decoding to the GPU.
        check "bench-feed-$MODEL-auto" stoker train recipes/imagefolder_resnet18.toml "${feed[@]}" \
            --set "model.name=$MODEL" --set data.workers=1 --out "$out/runs/feed-auto"
        # With a model that waits for its images: how fast they come.
        for on in cpu device; do
            check "bench-loader-$on" stoker bench pipeline --data "$out/photos.stk" --decode-on "$on" --json
            check "bench-decode-$on" stoker train recipes/imagefolder_resnet18.toml "${feed[@]}" \
                --set model.name=mlp --set "data.decode_on=$on" --out "$out/runs/decode-$on"
        done
        check bench-decode-pcie "$python" "$kit/decode_rate.py" "$out/bench-decode-device.log" \
            "$out/bench-loader-device.log"
        # From the JPEGs, which the GPU decodes by the entry points of the index.
        check index-photos stoker index data/photos
        for on in cpu device; do
            check "bench-decode-jpegs-$on" stoker train recipes/imagefolder_resnet18.toml "${feed[@]}" \
                --set data.train=data/photos --set model.name=mlp --set "data.decode_on=$on" \
                --out "$out/runs/decode-jpegs-$on"
        done
        check bench-pipeline stoker bench pipeline --data data/photos --json
    else
        skip bench-pipeline "no data/photos in the kit"
        skip "bench-feed-$MODEL" "no data/photos in the kit"
    fi
    check bench-step-small stoker bench step --model resnet18 --size 32 --batch 64 --precision bf16 --device cuda \
        --rounds 1 --seconds 1 --json
    check bench-ladder stoker bench ladder --data "$data" --device cuda --epochs 1 --peer --python "$python" \
        --peer-script peers/mnist_pytorch.py --json
    check bench-mnist stoker train recipes/mnist.toml --set "data.train=$data" --set device=cuda \
        --set data.cache=device --set train.epochs=6 --out "$out/runs/mnist" --json
}

# sanitize NAME TOOL TEST CASES: over our kernels, not LibTorch's.
sanitize() {
    start_beside "$1" compute-sanitizer --tool "$2" --error-exitcode 1 --kernel-name-exclude kernel_substring=at:: \
        "$kit/bin/$3" --gtest_filter="$4"
}

# A tool's checks beside each other, since each waits for the processor most of the time; on 16 cores all at once.
run_sanitizer() {
    local tool name
    for tool in memcheck racecheck initcheck synccheck; do
        if ! has_gpu; then
            skip "sanitizer-$tool" "no GPU"
        elif ! command -v compute-sanitizer >/dev/null; then
            skip "sanitizer-$tool" "compute-sanitizer is not installed"
        else
            name=sanitizer-$tool
            sanitize "$name-normalize" "$tool" bridge_test 'NormalizePinnedCuda.*'
            sanitize "$name-copies" "$tool" bridge_test 'PixelsCuda.*'
            sanitize "$name-decode" "$tool" bridge_test 'DeviceDecodeCuda.*'
            sanitize "$name-mlp" "$tool" train_test 'StepCuda.TheStepOfAnMlp*'
            sanitize "$name-batch-norm" "$tool" models_test 'BatchNormReluCuda.IsTheReference*:BatchNormReluCuda.OtherShapes*'
            limit_started
        fi
    done
}

setup
for stage in "${stages[@]}"; do
    echo "== $stage, after $SECONDS s"
    case $stage in tests | bench) finish_all ;; esac # they take the memory, or are measured
    "run_$stage"
done
finish_all
echo "$passed passed, $failed failed, $skipped skipped in $SECONDS s"
[[ $failed -eq 0 ]]
