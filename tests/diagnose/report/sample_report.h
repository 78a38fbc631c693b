// A made-up run with everything that a report can show, and names that try to leave their place in the page.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "stoker/diagnose/report/html_report.h"

namespace stoker {

inline const std::string kHostile = "</script><img src=x onerror=\"document.title='owned'\"><!--\u2028\u202egpj.\xff";

inline std::chrono::nanoseconds micros(double us) {
    return std::chrono::nanoseconds(std::llround(us * 1e3));
}

// Steps of about 21 ms with `wait_us` of waiting; the first one is long.
inline std::vector<StepEntry> sample_steps(int count, double wait_us) {
    std::vector<StepEntry> steps;
    for (int i = 1; i <= count; ++i) {
        const auto vary = [&](int which) { return 0.8 + 0.1 * ((i * 7 + which * 13) % 11 % 5); };
        StepEntry step{.step = i, .epoch = 1 + i / 500, .samples = 256};
        const auto set = [&](Phase phase, double us) { step.host.times[static_cast<std::size_t>(phase)] = micros(us); };
        const bool stalls = i % 97 < 20;
        set(Phase::wait, wait_us * vary(1) * (stalls ? 2.5 : 0.8));
        set(Phase::copy, 600 * vary(2));
        set(Phase::forward, 3100 * vary(3) + (i == 1 ? 900e3 : 0));
        set(Phase::backward, 5900 * vary(4));
        set(Phase::optimizer, 900 * vary(5));
        set(Phase::sync, i % 50 == 0 ? 4000 : 0);
        set(Phase::checkpoint, i % 400 == 0 ? 60e3 : 0);
        set(Phase::unmeasured, 310);
        step.ready = wait_us > 1000 ? (stalls ? 0 : i % 3) : 2 + i % 2;
        steps.push_back(step);
    }
    return steps;
}

inline RankRecords sample_rank(int rank, int steps, double wait_us) {
    RankRecords out;
    out.facts = {
        .writer = "stoker",
        .rank = rank,
        .host = {.cores = 8, .ranks = 1, .memory_bytes = 64LL << 30},
        .device = {.type = "cuda", .name = "NVIDIA H100 80GB HBM3", .memory_bytes = 80LL << 30, .tensor_cores = true},
        .data = {.path = "data/" + kHostile,
                 .format = "image folder",
                 .codec = "jpeg",
                 .storage = "ssd",
                 .samples = 1281167,
                 .sample_bytes = 112e3,
                 .image_bytes = 602112.0,
                 .workers = 2,
                 .prefetch = 3,
                 .pinned = true,
                 .cache = "none",
                 .decode = "exact"},
        .train = {
            .model = "resnet50", .parameters = 25557032, .batch_size = 256, .precision = "bf16", .optimizer = "sgd"}};
    out.steps = sample_steps(steps, wait_us);
    for (int i = 50; i <= steps; i += 50) {
        IntervalEntry interval{.first_step = i - 49, .last_step = i, .seconds = 1.1};
        StageTimes workers;
        workers[Stage::read] = micros(120e3);
        workers[Stage::entropy] = micros(900e3);
        workers[Stage::pixels] = micros(700e3);
        workers[Stage::augment] = micros(380e3);
        workers[Stage::blocked] = micros(40e3);
        workers.samples = 50 * 256;
        interval.workers = workers;
        interval.rss_bytes = (2LL << 30) + i * 300'000LL;
        interval.device_bytes = 31LL << 30;
        out.intervals.push_back(interval);
    }
    EvaluationEntry evaluation{.step = steps, .samples = 50000};
    evaluation.host.times[static_cast<std::size_t>(Phase::wait)] = micros(9e6);
    evaluation.host.times[static_cast<std::size_t>(Phase::forward)] = micros(3e6);
    out.evaluations.push_back(evaluation);
    return out;
}

inline std::vector<TimelineSpan> sample_timeline() {
    std::vector<TimelineSpan> spans;
    double at = 1e6;
    for (int step = 0; step < 6; ++step) {
        const auto add = [&](std::string lane, std::string name, double start, double duration) {
            spans.push_back({std::move(lane), std::move(name), at + start, duration});
        };
        const double wait = 9e3 + 800 * (step % 3);
        add("training thread", fmt::format("ProfilerStep#{}", step + 40), 0, wait + 10.6e3);
        add("training thread", "wait", 0, wait);
        add("training thread", "copy", wait, 600);
        add("training thread", "forward", wait + 600, 3100);
        add("training thread", "backward", wait + 3700, 5900);
        add("training thread", "optimizer", wait + 9600, 900);
        for (int i = 0; i < 40; ++i) {
            add("training thread", i % 3 == 0 ? "aten::conv2d" : "aten::batch_norm", wait + 620 + i * 76, 70);
            add("GPU 0 stream 7", i % 3 == 0 ? "sm90_xmma_fprop_implicit_gemm" : "batch_norm_kernel",
                wait + 800 + i * 220, 200);
        }
        for (int worker = 0; worker < 2; ++worker) {
            for (int i = 0; i < 12; ++i) {
                const double start = i * 1600 + worker * 500;
                add(fmt::format("worker {}", worker), "read", start, 100);
                add(fmt::format("worker {}", worker), "entropy", start + 100, 700);
                add(fmt::format("worker {}", worker), "pixels", start + 800, 500);
                add(fmt::format("worker {}", worker), "augment", start + 1300, 250);
            }
        }
        add("lane " + kHostile, kHostile, 100, 500);
        at += wait + 10.7e3;
    }
    return spans;
}

inline std::vector<FlameFrame> sample_flame() {
    FlameFrame forward{.name = "forward", .value_us = 18600};
    for (int i = 0; i < 8; ++i) {
        FlameFrame block{.name = fmt::format("resnet.py:{} layer{}", 100 + i, i + 1), .value_us = 2300};
        block.children = {{.name = "aten::conv2d",
                           .value_us = 1500,
                           .children = {{.name = "aten::cudnn_convolution", .value_us = 1300}}},
                          {.name = "aten::batch_norm", .value_us = 500},
                          {.name = "aten::relu_", .value_us = 200.0 - i}};
        forward.children.push_back(std::move(block));
    }
    FlameFrame step{.name = "train.py:41 train_step", .value_us = 118e3};
    step.children = {
        {.name = "enumerate(DataLoader)#Loader.__next__", .value_us = 58e3},
        std::move(forward),
        {.name = "backward", .value_us = 35400, .children = {{.name = "ConvolutionBackward0", .value_us = 26000}}},
        {.name = kHostile, .value_us = 1800}};
    return {{.name = "main.py:7 <module>", .value_us = 121e3, .children = {std::move(step)}}};
}

inline std::vector<OperatorRow> sample_operators() {
    std::vector<OperatorRow> rows;
    for (int i = 0; i < 240; ++i) {
        rows.push_back({.name = i == 3 ? kHostile : fmt::format("aten::op_{:03}", i / 2),
                        .shapes = fmt::format("[[256, {}, 56, 56]]", 64 * (i % 2 + 1)),
                        .place = fmt::format("model.py:{}", 20 + i % 17),
                        .count = 10 + i % 7,
                        .self_us = 9000.0 / (i + 1),
                        .total_us = 12000.0 / (i + 1),
                        .device_us = 30000.0 / (240 - i),
                        .self_bytes = 1LL << (i % 30),
                        .flops = i % 5 == 0 ? 1e9 * i : 0});
    }
    return rows;
}

inline Diagnosis sample_diagnosis() {
    const Finding decode{
        .rule = "few-workers",
        .severity = Severity::critical,
        .text =
            "The GPU waits for data during 51 % of each step: two workers decode, and six cores are idle. Raise "
            "data.workers to 7.",
        .evidence = {{"wait_share", 0.512}, {"decode_us", 127.4}, {"idle_cores", 5.8}, {"read_bytes_per_second", 41e6}},
        .first_step = 2,
        .last_step = 1000,
        .fix = {.recipe = {{"data.workers", "7"}, {"data.cache", "\"ram\""}, {"seed", "7"}},
                .code = "loader = DataLoader(dataset, num_workers=7, persistent_workers=True)"},
        .gain = {1.5, 1.9, 2.05},
        .confidence = 0.85};
    const Finding sync{
        .rule = "sync-points",
        .severity = Severity::warn,
        .text = "The loss is read from the GPU in every step, at " + kHostile + ". Read it every 50 steps.",
        .evidence = {{"sync_share", 0.021}, {"syncs_per_step", 1}},
        .first_step = 1,
        .last_step = 1000,
        .fix = {.code = "if step % 50 == 0:\n    print(loss.item())"},
        .gain = {1.0, 1.02, 1.04},
        .confidence = 0.6};
    const Finding memory{.rule = "memory-headroom",
                         .severity = Severity::info,
                         .text = "39 % of the GPU's memory was never used. A larger batch would fit.",
                         .evidence = {{"peak_bytes", 33285996544.0}}};
    return {.verdict = {.rule = decode.rule, .text = decode.text}, .findings = {decode, sync, memory}};
}

inline Report sample_report() {
    Report report{.title = "photos " + kHostile, .diagnosis = sample_diagnosis()};
    report.records.ranks = {sample_rank(0, 1000, 10e3)};
    report.records.recipe = {
        {"data.workers", "2"}, {"data.train", "\"" + kHostile + "\""}, {"train.precision", "\"bf16\""}};
    report.records.problems = {"metrics.jsonl: line 7: expected a step, got " + kHostile};
    report.records.ranks[0].profile = ProfileEntry{
        .span_us = 120e3,
        .gpu = GpuEntry{
            .times = {.compute_us = 52e3, .non_compute_us = 3e3, .idle_us = 65e3, .idle = {{7, 55e3, 4e3, 6e3}}},
            .kernels = 240}};
    report.records.ranks[0].functions = FunctionProfile{
        .steps = 4,
        .functions = {{.name = kHostile, .place = "train.py:7", .count = 8, .self_us = 2e3, .total_us = 40e3},
                      {.name = "built-in method torch.conv2d", .count = 80, .self_us = 30e3, .total_us = 30e3}}};
    report.timeline = sample_timeline();
    report.flame = sample_flame();
    report.operators = sample_operators();
    for (int i = 0; i < 5000; ++i) {
        if (i == 0) {
            report.memory = {{.name = "GPU 0, allocated"}, {.name = kHostile}};
        }
        const double phase = i % 833 / 833.0;
        report.memory[0].points.push_back(
            {i * 24.0, static_cast<std::int64_t>((12 + 18 * std::sin(phase * 3.14159)) * (1 << 30))});
        report.memory[1].points.push_back({i * 24.0, 34LL << 30});
    }
    return report;
}

// As of a run folder: records and a healthy verdict.
inline Report records_report() {
    Report report{.title = "digits",
                  .diagnosis = {.verdict = {.text = "Nothing is wrong: no rule found time to win."}}};
    report.records.ranks = {sample_rank(0, 300, 100)};
    return report;
}

inline Report ranks_report() {
    Report report = sample_report();
    for (int rank = 1; rank < 4; ++rank) {
        report.records.ranks.push_back(sample_rank(rank, 1000, rank == 2 ? 30e3 : 9e3));
        report.records.ranks.back().facts.world_size = 4;
    }
    return report;
}

}  // namespace stoker
