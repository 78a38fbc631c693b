// Rules about the device, operators and the input of traces: each fires on a made-up profile with the right numbers,
// and stays silent on a near miss.
#include <gmock/gmock.h>

#include "diagnose/rules/profiles.h"

namespace stoker {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

TEST(DeviceRules, AHealthyGpuHasNoFindings) {
    EXPECT_TRUE(diagnose({.kind = "trace", .ranks = {made({}, {{Phase::forward, 0.05}})}}).findings.empty());
}

TEST(DeviceRules, WaitingForBatches) {
    const auto found = find(made({{Phase::wait, 0.4}}, {{Phase::wait, 0.3}}), "input-bound");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->severity, Severity::critical);
    EXPECT_DOUBLE_EQ(value(*found, "wait_share"), 0.4);
    EXPECT_DOUBLE_EQ(value(*found, "lost_share"), 0.3);
    EXPECT_THAT(found->gain.high, DoubleNear(1 / 0.7, 1e-9));
    // The host waits for 40 % of the time, but the GPU has work meanwhile.
    EXPECT_FALSE(find(made({{Phase::wait, 0.4}}, {{Phase::wait, 0.04}}), "input-bound"));
    // On a CPU the wait is the loss.
    EXPECT_TRUE(find(made({{Phase::wait, 0.06}}, {}, false), "input-bound"));
    EXPECT_FALSE(find(made({{Phase::wait, 0.04}}, {}, false), "input-bound"));
    // Runs of Stoker have other rules.
    for (const Finding& finding :
         diagnose({.kind = "run", .ranks = {made({{Phase::wait, 0.4}}, {}, false)}}).findings) {
        EXPECT_NE(finding.rule, "input-bound");
    }
}

TEST(DeviceRules, NoWorkersIsSaid) {
    RankRecords rank = made({{Phase::wait, 0.1}}, {}, false);
    rank.facts.data.workers = 0;
    const auto found = find(rank, "input-bound");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->severity, Severity::warn);
    EXPECT_THAT(found->text, HasSubstr("loads the data itself"));
}

TEST(DeviceRules, PageableCopies) {
    RankRecords rank = made({{Phase::copy, 0.2}}, {{Phase::copy, 0.1}});
    rank.profile->copies = {{.kind = "HtoD", .pageable = true, .count = 10, .bytes = 10 << 20, .us = 1e4}};
    const auto found = find(rank, "pageable-copy");
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(value(*found, "lost_share"), 0.1);
    EXPECT_THAT(found->gain.high, DoubleNear(1 / 0.9, 1e-9));
    RankRecords small = rank;
    small.profile->copies[0].bytes = 10 << 10;  // does not block the host
    EXPECT_FALSE(find(small, "pageable-copy"));
    RankRecords pinned = rank;
    pinned.profile->copies[0].pageable = false;
    EXPECT_FALSE(find(pinned, "pageable-copy"));
    RankRecords hidden = made({{Phase::copy, 0.2}}, {{Phase::copy, 0.01}});
    hidden.profile->copies = rank.profile->copies;
    EXPECT_FALSE(find(hidden, "pageable-copy"));
}

TEST(DeviceRules, CopiesThatNothingHides) {
    RankRecords rank = made({}, {});
    rank.profile->copies = {{.kind = "HtoD", .count = 10, .bytes = 1 << 30, .us = 1e4, .overlapped_us = 2e3}};
    const auto found = find(rank, "copy-not-overlapped");
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(value(*found, "exposed_share"), 0.08);
    rank.profile->copies[0].overlapped_us = 6e3;
    EXPECT_FALSE(find(rank, "copy-not-overlapped"));
}

TEST(DeviceRules, WaitsForTheDevice) {
    RankRecords rank = made({{Phase::sync, 0.3}}, {{Phase::sync, 0.02}});
    rank.profile->syncs = {{.place = "train.py:9 (step), aten::item", .count = 10, .us = 3e4, .idle_us = 5e3},
                           {.place = "aten::nonzero", .count = 10, .us = 1e3, .idle_us = 1e3}};
    const auto found = find(rank, "sync-points");
    RankRecords scaled = rank;
    scaled.profile->syncs[0].place = "train.py:9, within torch/amp/grad_scaler.py:371";
    scaled.profile->syncs[0].idle_us = 1e6;
    scaled.facts.train.optimizer = "SGD";
    EXPECT_THAT(find(scaled, "sync-points")->fix.code, HasSubstr("torch.optim.SGD(..., fused=True)"));
    scaled.facts.train.optimizer = "RMSprop";  // lacks a fused kernel
    EXPECT_THAT(find(scaled, "sync-points")->fix.code, HasSubstr("bfloat16"));
    scaled.profile->syncs[0].place = "train.py:9, within torch/amp/grad_scaler.py:574 (get_scale)";
    EXPECT_THAT(find(scaled, "sync-points")->fix.code, HasSubstr("if step % 50 == 0: scaler.get_scale()"));
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(value(*found, "syncs_per_step"), 2);
    EXPECT_DOUBLE_EQ(value(*found, "lost_share"), 0.06);
    EXPECT_DOUBLE_EQ(value(*found, "recoverable_us_per_step"), 600);
    RankRecords profiled = rank;  // as of `stoker profile`: the rank's steps are others
    profiled.profile->steps = 5;
    EXPECT_DOUBLE_EQ(value(*find(profiled, "sync-points"), "syncs_per_step"), 4);
    EXPECT_THAT(found->text, HasSubstr("train.py:9"));
    RankRecords rare = rank;
    rare.profile->syncs[0].count = 2;
    rare.profile->syncs[1].count = 2;
    EXPECT_FALSE(find(rare, "sync-points"));
    RankRecords cheap = rank;
    cheap.profile->syncs[0].idle_us = 1e3;  // the GPU had work
    EXPECT_FALSE(find(cheap, "sync-points"));
}

TEST(DeviceRules, LaunchesThatComeTooLate) {
    RankRecords rank = made({}, {{Phase::forward, 0.2}, {Phase::backward, 0.2}, {Phase::wait, 0.2}});
    rank.profile->gpu->kernel_us = 2e4;
    const auto found = find(rank, "launch-bound");
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(value(*found, "lost_share"), 0.4);
    EXPECT_DOUBLE_EQ(value(*found, "kernel_us"), 20);
    EXPECT_DOUBLE_EQ(value(*found, "kernels_per_step"), 100);
    RankRecords long_kernels = rank;
    long_kernels.profile->gpu->kernels = 250;
    long_kernels.profile->gpu->kernel_us = 4e4;
    EXPECT_FALSE(find(long_kernels, "launch-bound"));
    EXPECT_FALSE(find(made({}, {{Phase::forward, 0.09}}), "launch-bound"));
    // Collectives last as long as the other ranks let them wait.
    RankRecords distributed = rank;
    distributed.profile->gpu->kernels += 100;
    distributed.profile->gpu->kernel_us += 100 * 2e3;
    distributed.profile->collectives = {{.name = "nccl:all_reduce", .backend = "nccl", .count = 100, .us = 100 * 2e3}};
    ASSERT_TRUE(find(distributed, "launch-bound"));
    EXPECT_DOUBLE_EQ(value(*find(distributed, "launch-bound"), "kernel_us"), 20);
    // What follows a wait for the device is the wait's fault.
    RankRecords after_sync = rank;
    after_sync.profile->syncs = {{.place = "aten::item", .count = 10, .us = 1e3, .idle_us = 3.5e4}};
    EXPECT_FALSE(find(after_sync, "launch-bound"));
}

TEST(DeviceRules, TensorCoresThatAreUnused) {
    RankRecords rank = made({}, {});
    rank.profile->operators = {{.name = "aten::mm", .count = 10, .device_us = 5e4}};
    EXPECT_FALSE(find(rank, "fp32-on-tensor-cores"));  // they are used
    rank.profile->gpu->tensor_core_us = 0;
    const auto found = find(rank, "fp32-on-tensor-cores");
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(value(*found, "eligible_share"), 0.5);
    EXPECT_THAT(found->gain.expected, DoubleNear(1 / (1 - 0.5 * 0.6), 1e-9));
    EXPECT_EQ(found->fix.recipe.at(0), (RecipeChange{"train.precision", "\"bf16\""}));
    RankRecords half = rank;
    half.profile->operators[0].types = R"(["c10::BFloat16", "c10::BFloat16"])";
    EXPECT_FALSE(find(half, "fp32-on-tensor-cores")) << "whatever its kernels are called";
    RankRecords turing = rank;
    turing.facts.device.name = "Quadro RTX 6000";
    EXPECT_EQ(find(turing, "fp32-on-tensor-cores")->fix.recipe.at(0).value, "\"fp16\"");
    turing.facts.device.name = "NVIDIA RTX 2000 Ada Generation";
    EXPECT_EQ(find(turing, "fp32-on-tensor-cores")->fix.recipe.at(0).value, "\"bf16\"");
    RankRecords old = rank;
    old.facts.device.tensor_cores = false;
    EXPECT_FALSE(find(old, "fp32-on-tensor-cores"));
    RankRecords little = rank;
    little.profile->operators[0].device_us = 9e3;
    EXPECT_FALSE(find(little, "fp32-on-tensor-cores"));
    RankRecords cpu = rank;
    cpu.facts.device.type = "cpu";
    EXPECT_FALSE(find(cpu, "fp32-on-tensor-cores"));
}

TEST(DeviceRules, Memory) {
    const auto with = [](std::int64_t bytes) {
        RankRecords rank = made({}, {});
        rank.intervals.push_back({.first_step = 1, .last_step = 10, .seconds = 0.1, .device_bytes = bytes});
        const auto found = find(rank, "memory-headroom");
        return found ? std::optional(found->severity) : std::nullopt;
    };
    EXPECT_EQ(with(980), Severity::critical);
    EXPECT_EQ(with(930), Severity::warn);
    EXPECT_EQ(with(910), std::nullopt);
    EXPECT_EQ(with(510), std::nullopt);
    EXPECT_EQ(with(490), Severity::info);
}

TEST(DeviceRules, AnIdleGpu) {
    RankRecords rank = made({}, {{Phase::forward, 0.4}, {Phase::backward, 0.2}});
    rank.profile->gpu->kernels = 100;  // long ones, so that launches are not to blame
    const auto found = find(rank, "gpu-idle");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->severity, Severity::warn);
    EXPECT_DOUBLE_EQ(value(*found, "busy_share"), 0.4);
    EXPECT_THAT(found->text, HasSubstr("\"forward\""));
    EXPECT_FALSE(find(made({}, {{Phase::forward, 0.45}}), "gpu-idle"));
    EXPECT_EQ(find(made({}, {{Phase::wait, 0.6}}), "gpu-idle")->severity, Severity::info);  // the input explains it
}

TEST(DeviceRules, CudnnsSearch) {
    RankRecords rank = made({}, {});
    rank.profile->operators = {
        {.name = "aten::cudnn_convolution", .count = 10, .self_us = 2e4, .kernels = 80, .shapes = "[[1]]"},
        {.name = "aten::cudnn_convolution", .count = 10, .self_us = 2e4, .kernels = 80, .shapes = "[[2]]"}};
    const auto found = find(rank, "cudnn-search");
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(value(*found, "kernels_per_convolution"), 8);
    EXPECT_DOUBLE_EQ(value(*found, "input_sizes"), 2);
    EXPECT_THAT(found->gain.high, DoubleNear(1 / (1 - 0.4 * 0.75), 1e-9));
    rank.profile->operators[0].kernels = rank.profile->operators[1].kernels = 30;
    EXPECT_FALSE(find(rank, "cudnn-search"));
}

TEST(OperatorRules, OddSizes) {
    RankRecords rank = made({}, {});
    rank.profile->operators = {{.name = "aten::mm",
                                .count = 10,
                                .device_us = 1e4,
                                .shapes = "[[64, 1000], [1000, 33]]",
                                .types = R"(["c10::Half", "c10::Half"])"}};
    const auto found = find(rank, "odd-sizes");
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(value(*found, "size"), 33);
    EXPECT_THAT(found->text, HasSubstr("33 to 40"));
    RankRecords even = rank;
    even.profile->operators[0].shapes = "[[64, 1000], [1000, 32]]";
    EXPECT_FALSE(find(even, "odd-sizes"));
    rank.profile->operators[0].types = R"(["float", "float"])";
    EXPECT_FALSE(find(rank, "odd-sizes"));
}

TEST(OperatorRules, SingleTensorOptimizer) {
    RankRecords rank = made({{Phase::optimizer, 0.4}}, {}, false);
    rank.facts.train.optimizer = "Adam";
    rank.facts.train.optimizer_kernel = "single";
    rank.profile->operators = {
        {.name = "aten::mul_", .count = 1000, .self_us = 2e4, .range = "Optimizer.step#Adam.step"}};
    const auto found = find(rank, "single-tensor-optimizer");
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(value(*found, "optimizer_share"), 0.4);
    EXPECT_DOUBLE_EQ(value(*found, "operators_per_step"), 100);
    // Half of its time is Python between the operators; a quarter of the rest stays.
    EXPECT_THAT(found->gain.low, DoubleNear(1 / (1 - 0.2), 1e-9));
    EXPECT_THAT(found->gain.high, DoubleNear(1 / (1 - 0.35), 1e-9));
    EXPECT_THAT(found->fix.code, HasSubstr("torch.optim.Adam(model.parameters(), ..., fused=True)"));
    RankRecords other = rank;
    other.facts.train.optimizer = "NAdam";
    EXPECT_THAT(find(other, "single-tensor-optimizer")->fix.code, HasSubstr("NAdam(model.parameters(), ..., foreach="));
    EXPECT_DOUBLE_EQ(find(other, "single-tensor-optimizer")->gain.low, 1);
    other.facts.train.optimizer = "Adagrad";
    EXPECT_THAT(find(other, "single-tensor-optimizer")->fix.code, HasSubstr("fused=True"));
    for (const char* none : {"Rprop", "Lion"}) {  // nothing is faster on a CPU; no optimizer of torch
        other.facts.train.optimizer = none;
        EXPECT_FALSE(find(other, "single-tensor-optimizer")) << none;
    }
    other.facts.device.type = "cuda";
    other.facts.train.optimizer = "Rprop";
    EXPECT_THAT(find(other, "single-tensor-optimizer")->fix.code, HasSubstr("foreach=True"));
    RankRecords fused = rank;
    fused.facts.train.optimizer_kernel = "fused";
    EXPECT_FALSE(find(fused, "single-tensor-optimizer"));
    RankRecords small = made({{Phase::optimizer, 0.04}}, {}, false);
    small.facts.train = rank.facts.train;
    small.profile->operators = rank.profile->operators;
    EXPECT_FALSE(find(small, "single-tensor-optimizer"));
}

TEST(OperatorRules, ZeroedGradients) {
    RankRecords rank = made({}, {}, false);
    rank.profile->operators = {
        {.name = "aten::zero_", .count = 20, .self_us = 2e3, .range = "Optimizer.zero_grad#SGD.zero_grad"}};
    const auto found = find(rank, "zeroed-grads");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->severity, Severity::warn);
    EXPECT_DOUBLE_EQ(value(*found, "share"), 0.02);
    rank.profile->operators[0].self_us = 500;
    EXPECT_EQ(find(rank, "zeroed-grads")->severity, Severity::info);
    rank.profile->operators[0].self_us = 50;
    EXPECT_FALSE(find(rank, "zeroed-grads"));
    // On a GPU the kernels count, and the host only where the GPU waits for it.
    RankRecords gpu = made({}, {});
    gpu.profile->operators = {
        {.name = "aten::zero_", .count = 20, .self_us = 2e3, .range = "Optimizer.zero_grad#SGD.zero_grad"}};
    EXPECT_FALSE(find(gpu, "zeroed-grads"));
    gpu.profile->operators[0].device_us = 500;
    EXPECT_DOUBLE_EQ(value(*find(gpu, "zeroed-grads"), "share"), 0.005);
    (*gpu.profile->idle_during)[static_cast<std::size_t>(Phase::optimizer)] = std::chrono::milliseconds(1);
    EXPECT_DOUBLE_EQ(value(*find(gpu, "zeroed-grads"), "share"), 0.015);
}

TEST(OperatorRules, Sequences) {
    RankRecords rank = made({}, {}, false);
    rank.profile->sequences = {{.kind = "indexing loop", .count = 640, .us = 2e4, .place = "model.py:3 (forward)"},
                               {.kind = "conv bias before batch norm", .count = 20, .us = 0}};
    const auto loop = find(rank, "indexing-loop");
    ASSERT_TRUE(loop);
    EXPECT_EQ(loop->severity, Severity::warn);
    EXPECT_DOUBLE_EQ(value(*loop, "iterations_per_step"), 64);
    EXPECT_THAT(loop->text, HasSubstr("model.py:3"));
    EXPECT_EQ(find(rank, "conv-bias-before-norm")->severity, Severity::info);
    EXPECT_DOUBLE_EQ(value(*find(rank, "conv-bias-before-norm"), "convolutions_per_step"), 2);
    rank.profile->sequences[0].us = 900;
    EXPECT_FALSE(find(rank, "indexing-loop"));

    RankRecords gpu = made({}, {});
    gpu.profile->sequences = {{.kind = "filled on the host, then copied", .count = 10, .us = 3e3}};
    EXPECT_FALSE(find(gpu, "filled-on-host")) << "the GPU had work meanwhile";
    (*gpu.profile->idle_during)[static_cast<std::size_t>(Phase::copy)] = std::chrono::milliseconds(4);
    EXPECT_EQ(find(gpu, "filled-on-host")->severity, Severity::warn);
    EXPECT_DOUBLE_EQ(value(*find(gpu, "filled-on-host"), "share"), 0.03);
    gpu.profile->sequences[0].us = 400;
    EXPECT_FALSE(find(gpu, "filled-on-host"));
}

TEST(OperatorRules, DataParallel) {
    RankRecords rank = made({}, {});
    rank.profile->operators = {{.name = "Scatter", .count = 10, .self_us = 1e4, .range = "DataParallel.forward"}};
    EXPECT_FALSE(find(rank, "data-parallel"));  // one GPU
    rank.facts.device.count = 4;
    const auto found = find(rank, "data-parallel");
    ASSERT_TRUE(found);
    EXPECT_DOUBLE_EQ(value(*found, "copy_share"), 0.1);
    rank.profile->operators[0].range = "DistributedDataParallel.forward";
    EXPECT_FALSE(find(rank, "data-parallel"));
}

TEST(DeviceRules, AnEmptyGpuGetsALargerBatch) {
    RankRecords rank = made({}, {});
    rank.facts.train.batch_size = 32;
    rank.intervals.push_back({.first_step = 1, .last_step = 10, .seconds = 0.1, .device_bytes = 80});
    EXPECT_EQ(find(rank, "memory-headroom")->fix.recipe.at(0), (RecipeChange{"data.batch_size", "64"}));
}

TEST(DeviceRules, AFullGpuRecomputesOrGetsSmallerMicroBatches) {
    RankRecords rank = made({}, {});
    rank.facts.train.accumulate = 4;
    rank.intervals.push_back({.first_step = 1, .last_step = 10, .seconds = 0.1, .device_bytes = 980});
    EXPECT_EQ(find(rank, "memory-headroom")->fix.recipe.at(0), (RecipeChange{"train.gradient_checkpointing", "true"}));
    const Diagnosis with_checkpointing =
        diagnose({.kind = "trace", .ranks = {rank}, .recipe = {{"train.gradient_checkpointing", "true"}}});
    EXPECT_EQ(with_checkpointing.findings.at(0).fix.recipe.at(0), (RecipeChange{"train.accumulate", "8"}));
    rank.facts.train.model = "resnet50";
    EXPECT_EQ(find(rank, "memory-headroom")->fix.recipe.at(0).key, "train.gradient_checkpointing");
    rank.facts.train.model = "mlp";
    const auto mlp = find(rank, "memory-headroom");
    EXPECT_EQ(mlp->fix.recipe.at(0).key, "train.accumulate") << "it is not divided into blocks";
    EXPECT_EQ(mlp->text.find("Recompute"), std::string::npos) << mlp->text;
    rank.facts.train.model = "resnet50.pt2";
    EXPECT_EQ(find(rank, "memory-headroom")->fix.recipe.at(0).key, "train.accumulate");
}

}  // namespace
}  // namespace stoker
