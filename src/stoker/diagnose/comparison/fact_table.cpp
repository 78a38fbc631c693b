#include "stoker/diagnose/comparison/fact_table.h"

#include <algorithm>
#include <array>

namespace stoker {
namespace {

using enum Phase;
using enum Stage;
using enum SlowerWith;

// A GPU's own time shows where the host waits for it, in `sync`.
constexpr PhaseSet kPasses = {forward, backward, step, sync};
constexpr PhaseSet kModel = kPasses | PhaseSet{optimizer};
constexpr PhaseSet kWait = {wait};
constexpr PhaseSet kCores = kModel | PhaseSet{wait, unmeasured, evaluate};
constexpr PhaseSet kAll = kCores | PhaseSet{copy, communication, checkpoint};

constexpr double kThroughOthers = 0.6;  // a release, or a value that follows from other facts
constexpr double kObserved = 0.7;       // a figure of the records: the setting behind it is named first, if it differs
constexpr double kWhere = 0.45;         // a place, which says where and not why
constexpr double kRarely = 0.4;
constexpr double kContext = 0.1;

constexpr std::array kRows = std::to_array<FactRow>({
    {"data.workers", kWait, less, 1, "no-workers few-workers many-workers worker-startup slow-loader input-bound"},
    {"data.prefetch", kWait, less, 1, "no-prefetch"},
    {"data.persistent", kWait, any, 1, "worker-startup"},
    {"data.cache", kWait, any, 1, "storage-bound decode-bound cold-cache", {read, entropy, pixels}},
    {"data.storage", kWait, any, 1, "storage-bound cold-cache", {read}},
    {"data.format", kWait, any, 1, "storage-bound decode-bound", {read, entropy, pixels}},
    {"data.codec", kWait, any, 1, "decode-bound", {entropy, pixels}},
    {"data.decode", kWait, any, 1, "decode-bound", {entropy, pixels}},
    {"data.decode_on", kWait | PhaseSet{copy, sync}, any, 1, "decode-bound", {entropy, pixels}},
    {"data.jpeg_index", kWait, any, 1, "decode-bound", {entropy, pixels}},
    {"data.sample_bytes", kWait, more, 0.8, "storage-bound decode-bound", {read, entropy, pixels}, 0.02},
    {"data.image_bytes", kPasses | PhaseSet{wait, copy}, more, 0.9, "augment-bound", {augment}, 0.01},
    {"data.path", kWait, any, kThroughOthers, "storage-bound decode-bound cold-cache", {read, entropy, pixels}},
    {"data.train", kWait, any, kThroughOthers, "", {read, entropy, pixels}, 0, "data.path"},
    {"data.train_ops", kWait, any, 1, "augment-bound", {augment}},
    {"data.views", kPasses | PhaseSet{wait, copy}, more, 1, "augment-bound", {augment}},
    {"data.frames", kPasses | PhaseSet{wait, copy}, more, 1, "decode-bound", {read, pixels, augment}},
    {"data.samples", kWait, more, kRarely, "cold-cache", {read}},
    {"data.loader", kWait | PhaseSet{copy}},
    {"data.iterable", kWait, any, kRarely},
    {"data.shuffle", kWait, any, kRarely, "storage-bound", {read}},
    {"data.pinned", {copy, sync}, less, 1, "pageable-copy copy-not-overlapped"},
    {"data.pin_memory", {copy, sync}, less, 1, "", {}, 0, "data.pinned"},
    {"data.place", kAll, any, kContext},
    {"data.stoker_samples_per_second", kWait, less, 0, "", {}, 0.5},
    {"data.batch_size", kAll, less, 1, "", {}, 0, "train.batch_size"},
    {"train.batch_size", kModel | PhaseSet{unmeasured, communication, copy}, less, 1, "small-batch launch-bound"},
    {"train.accumulate", kModel | PhaseSet{communication}},
    {"train.precision", kModel, any, 1, "fp32-on-tensor-cores full-precision slow-precision"},
    {"train.channels_last", kPasses},
    {"train.compiled", kModel | PhaseSet{unmeasured}, any, 1, "launch-bound"},
    {"train.compile", kModel | PhaseSet{unmeasured}, any, 1, "", {}, 0, "train.compiled"},
    {"train.deterministic", kPasses},
    {"train.model", kModel | PhaseSet{communication}},
    {"model.", kModel | PhaseSet{communication}},
    {"model.name", kModel, any, 1, "", {}, 0, "train.model"},
    {"train.parameters", kModel | PhaseSet{communication, checkpoint}, more, 0.8},
    {"train.matmul_flops", kPasses, more, 0.8, "", {}, 0.01},
    {"train.optimizer", {optimizer, step}},
    {"train.optimizer_kernel", {optimizer, step}, any, 1, "single-tensor-optimizer"},
    {"optimizer.", {optimizer, step}, any, kRarely},
    {"optimizer.name", {optimizer, step}, any, 1, "", {}, 0, "train.optimizer"},
    {"schedule.", {optimizer}, any, kContext},
    {"train.threads", kModel, less, 1, "oversubscription"},
    {"train.thread_speedup", kModel, less, kRarely, "oversubscription", {}, 0.5},
    {"train.gradient_checkpointing", {backward, step, sync}},
    {"train.ema", {optimizer, step, unmeasured}},
    {"train.clip_norm", {optimizer, sync, step}},
    {"train.clip_value", {optimizer, step}},
    {"train.data_parallel", kModel, any, 1, "data-parallel"},
    {"train.steps_per_epoch", kWait, less, kRarely, "worker-startup uneven-steps"},
    {"train.epochs_per_evaluation", {evaluate}, less, 1, "frequent-evaluation"},
    {"train.evaluate_every", {evaluate}, less, 1, "", {}, 0, "train.epochs_per_evaluation"},
    {"train.val_samples", {evaluate}, more, 1, "frequent-evaluation"},
    {"train.val_workers", {evaluate}, less},
    {"data.val", {evaluate}, any, kThroughOthers},
    {"data.val_ops", {evaluate}},
    {"train.checkpoint_every", {checkpoint}, any, 1, "frequent-checkpoints"},
    {"train.keep_best", {checkpoint}, any, 1, "frequent-checkpoints"},
    {"train.collectives", {communication}, any, 1, "gloo-on-gpu communication"},
    {"train.compress_gradients", {communication}, any, 1, "communication"},
    {"train.shard", {communication, forward, backward, step}, any, 1, "communication"},
    {"train.mesh.", kModel | PhaseSet{communication}, any, 1, "communication"},
    {"train.pipeline", kModel | PhaseSet{communication}},
    {"train.stages", kModel | PhaseSet{communication}, any, 0},  // its times are measured anew in each run
    {"world_size", {communication, wait, copy, forward, backward}, more, 1, "communication straggler"},
    {"host.ranks", kCores | PhaseSet{communication}, more, 1, "communication straggler few-workers", kAnyStage},
    {"host.cores", kCores, less, 1, "few-workers many-workers cpu-throttled oversubscription", kAnyStage},
    {"host.affinity", kCores, less, 0.9, "few-workers many-workers oversubscription", kAnyStage},
    {"host.processor", kCores, any, 0.9, "", kAnyStage},
    {"host.avx512_vbmi2", kWait, less, kThroughOthers, "", {entropy, pixels}},
    {"host.memory_bytes", {wait, unmeasured}, less, kRarely, "memory-pressure cold-cache", {read}, 0.05},
    {"device.type", kModel | PhaseSet{copy}},
    {"device.name", kModel | PhaseSet{copy}},
    {"device.count", kModel, less, 1, "data-parallel"},
    {"device.memory_bytes", kModel, less, kContext, "memory-headroom", {}, 0.02},
    {"device.compute_major", kModel, less, kContext},
    {"device.tensor_cores", kModel, less, kContext},
    {"device.fp32_flops", kPasses, less, kRarely, "", {}, 0.3},
    {"device.bf16_speedup", kPasses, any, 0, "", {}, 0.5},
    {"device.half_speedup", kPasses, any, 0, "", {}, 0.5},
    {"software.torch", kModel | PhaseSet{copy, communication, unmeasured}, any, kThroughOthers},
    {"software.stoker", kAll, any, kThroughOthers, "", kAnyStage},
    {"software.cuda", kModel | PhaseSet{communication}, any, kThroughOthers},
    {"software.python", {unmeasured, wait}, any, kRarely},
    {"program", kAll, any, kRarely},
    {"train.optimizer_place", {optimizer}, any, kContext},
    {"train.evaluation_place", {evaluate}, any, kContext},
    {"train.val_loader_place", {evaluate}, any, kContext},
    {"train.checkpoint_place", {checkpoint}, any, kContext},
    // Measured figures.
    {"workers.read", kWait, more, kObserved, "storage-bound", {read}, 0.25},
    {"workers.entropy", kWait, more, kObserved, "decode-bound", {entropy}, 0.25},
    {"workers.pixels", kWait, more, kObserved, "decode-bound", {pixels}, 0.25},
    {"workers.augment", kWait, more, kObserved, "augment-bound", {augment}, 0.25},
    {"evaluation.every", {evaluate}, less, kObserved, "frequent-evaluation", {}, 0.05},
    {"evaluation.seconds", {evaluate}, more, kThroughOthers, "frequent-evaluation", {}, 0.1},
    {"checkpoint.every", {checkpoint}, less, kObserved, "frequent-checkpoints", {}, 0.05},
    {"checkpoint.seconds", {checkpoint}, more, kThroughOthers, "frequent-checkpoints", {}, 0.1},
    {"load.other_processes", kCores, more, 1, "other-processes", kAnyStage},
    {"load.steal", kCores, more, 1, "cpu-steal", kAnyStage},
    {"load.throttled", kCores, more, 1, "cpu-throttled", kAnyStage},
    {"load.swap", kCores, more, 1, "memory-pressure", kAnyStage},
    {"load.gpu_clock", kModel, less, 1, "gpu-throttled"},
    {"syncs.", {sync, copy}, more, 1, "sync-points"},
    {"lines.", kModel | PhaseSet{unmeasured}, more, kWhere, "python-loop"},
});

constexpr FactRow kUnknown{"", kAll, any, kContext};

bool fits(const FactRow& row, std::string_view key) {
    return row.key.ends_with('.') ? key.starts_with(row.key) : key == row.key;
}

}  // namespace

std::span<const FactRow> fact_rows() {
    return kRows;
}

const FactRow& row_of(std::string_view key) {
    const FactRow* best = &kUnknown;
    for (const FactRow& row : kRows) {
        best = fits(row, key) && row.key.size() > best->key.size() ? &row : best;
    }
    return *best;
}

}  // namespace stoker
