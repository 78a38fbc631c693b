// The keys of every record, in the order of a line: one list serves writing, reading and listing them
// (docs/records.md). `visit(key, member)` is called for each member; of the others, `count` is never negative, `figure`
// is null if it is not finite, and `nullable` is null if it is unknown.
#pragma once

#include <concepts>
#include <type_traits>

#include "stoker/records/records.h"

namespace stoker {

template <typename T, typename Entry>
concept Of = std::same_as<std::remove_const_t<T>, Entry>;

void fields(Of<HostFacts> auto& facts, const auto& visit) {
    visit("cores", facts.cores);
    visit("affinity", facts.affinity);
    visit("ranks", facts.ranks);
    visit("memory_bytes", facts.memory_bytes);
    visit("avx512_vbmi2", facts.avx512_vbmi2);
}

void fields(Of<DeviceFacts> auto& facts, const auto& visit) {
    visit("type", facts.type);
    visit("name", facts.name);
    visit("count", facts.count);
    visit("memory_bytes", facts.memory_bytes);
    visit("compute_major", facts.compute_major);
    visit("tensor_cores", facts.tensor_cores);
    visit("fp32_flops", facts.fp32_flops);
    visit("bf16_speedup", facts.bf16_speedup);
    visit("half_speedup", facts.half_speedup);
}

void fields(Of<DataFacts> auto& facts, const auto& visit) {
    visit("path", facts.path);
    visit("format", facts.format);
    visit("codec", facts.codec);
    visit("storage", facts.storage);
    visit("samples", facts.samples);
    visit("sample_bytes", facts.sample_bytes);
    visit("image_bytes", facts.image_bytes);
    visit("loader", facts.loader);
    visit("iterable", facts.iterable);
    visit("workers", facts.workers);
    visit("prefetch", facts.prefetch);
    visit("pinned", facts.pinned);
    visit("persistent", facts.persistent);
    visit("shuffle", facts.shuffle);
    visit("drop_last", facts.drop_last);
    visit("cache", facts.cache);
    visit("decode", facts.decode);
    visit("decode_on", facts.decode_on);
    visit("place", facts.place);
    visit("stoker_samples_per_second", facts.stoker_samples_per_second);
}

void fields(Of<TrainFacts> auto& facts, const auto& visit) {
    visit("model", facts.model);
    visit("parameters", facts.parameters);
    visit("batch_size", facts.batch_size);
    visit("steps_per_epoch", facts.steps_per_epoch);
    visit("val_samples", facts.val_samples);
    visit("epochs_per_evaluation", facts.epochs_per_evaluation);
    visit("precision", facts.precision);
    visit("optimizer", facts.optimizer);
    visit("optimizer_kernel", facts.optimizer_kernel);
    visit("compiled", facts.compiled);
    visit("accumulate", facts.accumulate);
    visit("threads", facts.threads);
    visit("thread_speedup", facts.thread_speedup);
    visit("matmul_flops", facts.matmul_flops);
    visit("stages", facts.stages);
    visit("pipeline", facts.pipeline);
    visit("collectives", facts.collectives);
    visit("optimizer_place", facts.optimizer_place);
    visit("evaluation_place", facts.evaluation_place);
    visit("val_loader_place", facts.val_loader_place);
    visit("val_workers", facts.val_workers);
    visit("checkpoint_place", facts.checkpoint_place);
}

void fields(Of<RunFacts> auto& facts, const auto& visit) {
    visit("writer", facts.writer);
    visit("rank", facts.rank);
    visit("world_size", facts.world_size);
    visit("program", facts.program);
    visit("host", facts.host);
    visit("device", facts.device);
    visit("data", facts.data);
    visit("train", facts.train);
}

void fields(Of<StepEntry> auto& step, const auto& visit) {
    visit.count("step", step.step);
    visit.count("epoch", step.epoch);
    visit.count("samples", step.samples);
    visit.figure("loss", step.loss);
    visit.figure("lr", step.lr);
    visit.hash("batch_hash", step.batch_hash);
    visit("ready", step.ready);
    visit("copy_bytes", step.copy_bytes);
    visit("us", step.host.times);
}

void fields(Of<SyncEntry> auto& sync, const auto& visit) {
    visit("place", sync.place);
    visit.count("count", sync.count);
    visit("us", sync.us);
}

void fields(Of<LineEntry> auto& line, const auto& visit) {
    visit("place", line.place);
    visit("us", line.us);
    visit("per_step", line.per_step);
}

void fields(Of<IntervalEntry> auto& interval, const auto& visit) {
    visit.count("first_step", interval.first_step);
    visit.count("last_step", interval.last_step);
    visit("seconds", interval.seconds);
    visit("us", interval.host.times);
    visit("workers_us", interval.workers);
    visit("syncs", interval.syncs);
    visit("lines", interval.lines);
    visit("after_us", interval.after_us);
    visit("start_us", interval.start_us);
    visit("core_wait_us", interval.core_wait_us);
    visit("user_seconds", interval.user_seconds);
    visit("system_seconds", interval.system_seconds);
    visit("rss_bytes", interval.rss_bytes);
    visit("read_bytes", interval.read_bytes);
    visit("major_faults", interval.major_faults);
    visit("device_bytes", interval.device_bytes);
    visit("gpu_done_us", interval.gpu_done_us);
    visit("gpu_busy_us", interval.gpu_busy_us);
    visit("gpu_celsius", interval.gpu_celsius);
    visit("gpu_clock_share", interval.gpu_clock_share);
    visit("gpu_clock_limit", interval.gpu_clock_limit);
    visit("busy_share", interval.busy_share);
    visit("iowait_share", interval.iowait_share);
    visit("steal_share", interval.steal_share);
    visit("throttled_share", interval.throttled_share);
    visit("swap_in_bytes_per_second", interval.swap_in_bytes_per_second);
}

void fields(Of<EvaluationEntry> auto& evaluation, const auto& visit) {
    visit.count("step", evaluation.step);
    visit.count("samples", evaluation.samples);
    visit("us", evaluation.host.times);
    visit("workers_us", evaluation.workers);
}

void fields(Of<Bubble> auto& bubble, const auto& visit) {
    visit("formula", bubble.formula);
    visit("stages", bubble.stages);
}

// Without "step": the epochs of a run's document have none.
void fields(Of<EpochEntry> auto& epoch, const auto& visit) {
    visit.count("epoch", epoch.epoch);
    visit.figure("seconds", epoch.seconds);
    visit.figure("images_per_second", epoch.images_per_second);
    visit.figure("train_loss", epoch.train_loss);
    visit.nullable("val_loss", epoch.val_loss);
    visit.nullable("val_accuracy", epoch.val_accuracy);
    visit.nullable("val_top5_accuracy", epoch.val_top5_accuracy);
    visit.count("bad_samples", epoch.bad_samples);
    visit.count("val_bad_samples", epoch.val_bad_samples);
    visit("val_metric", epoch.val_metric);
    visit("higher_is_better", epoch.higher_is_better);
    visit("val_metrics", epoch.val_metrics);
    visit("bubble", epoch.bubble);
}

void fields(Of<FunctionEntry> auto& function, const auto& visit) {
    visit("name", function.name);
    visit("place", function.place);
    visit.count("count", function.count);
    visit("self_us", function.self_us);
    visit("total_us", function.total_us);
}

void fields(Of<FunctionProfile> auto& profile, const auto& visit) {
    visit.count("steps", profile.steps);
    visit("functions", profile.functions);
}

}  // namespace stoker
