// Parameters' hooks tell when the backward pass has a gradient. A GPU works behind the host, so the clock is read after
// it has finished.
#include "stoker/train/rank_step.h"

#include <ATen/Parallel.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <future>
#include <numeric>
#include <span>

#include "stoker/base/error.h"
#include "stoker/base/statistics.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/train/run/model_stages.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/run/train_plan.h"
#include "stoker/train/step/optimizer.h"

namespace stoker {
namespace {

// The most memory that tensors of this thread have taken since it was made.
struct PeakMemory : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* /*block*/, std::int64_t bytes, std::size_t /*all*/, std::size_t /*reserved*/,
                           c10::Device /*device*/) override {
        held += bytes;
        peak = std::max(peak, held);
    }
    bool memoryProfilingEnabled() const override { return true; }

    std::int64_t held = 0;
    std::int64_t peak = 0;
};

std::int64_t state_bytes(const std::vector<NamedTensor>& tensors) {
    std::int64_t bytes = 0;
    for (const auto& [name, tensor] : tensors) {
        bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
    return bytes;
}

// Seconds since `begin`, when the device has done its work.
double seconds_since(std::chrono::steady_clock::time_point begin, const at::Tensor& last) {
    wait_for_device(last);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class RankTraining {
  public:
    RankTraining(const Recipe& recipe, int ranks)
        : samples_(std::max<std::int64_t>(recipe.data.batch_size * recipe.train.mesh.copy() / ranks, 1)),
          plan_(plan_training(of_one_process(recipe, samples_), training_data(recipe), nullptr, /*resumes=*/false,
                              std::make_shared<Group>())),
          options_(step_options(recipe, plan_.task, plan_.device)),
          optimizer_(own_parameters(static_cast<int>(recipe.train.mesh.tp)), recipe.optimizer) {
        plan_.model->require_autograd();
        options_.accumulate = std::min(options_.accumulate, samples_);
        // The largest micro-batch, as in MeasuredRank::micro_batch.
        batch_ = random_batch(plan_.task, (samples_ - 1) / options_.accumulate + 1, plan_.device);
        for (const auto& [name, parameter] : plan_.model->trainable_parameters()) {
            parameter.register_hook([this](const at::Tensor& gradient) {
                found_.push_back(
                    {seconds_since(backward_began_, gradient), static_cast<std::int64_t>(gradient.nbytes())});
            });
        }
    }

    // One micro-batch and an update.
    RankStep step() {
        RankStep step{.micro_batches = options_.accumulate, .gradients = {}, .synced_norms = synced_norms()};
        sums_.clear();
        const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
        at::Tensor loss;
        {
            const Autocast autocast(options_.precision, plan_.device);
            loss = plan_.model->loss(batch_, options_.loss);
        }
        step.forward = seconds_since(begin, loss);
        found_.clear();
        backward_began_ = std::chrono::steady_clock::now();
        plan_.model->backward(loss);
        step.gradients = found_;
        step.tensor_sums = sums_;
        step.backward = seconds_since(backward_began_, step.gradients.empty() ? loss : optimizer_.gradients().back());
        const std::chrono::steady_clock::time_point update = std::chrono::steady_clock::now();
        optimizer_.step();
        step.update = seconds_since(update, plan_.model->trainable_parameters().front().tensor);
        return step;
    }

    // After a step, whose gradients are there.
    RankMemory memory() {
        const auto peak = std::make_shared<PeakMemory>();
        {
            const c10::DebugInfoGuard counted(c10::DebugInfoKind::PROFILER_STATE, peak);
            step();
        }
        std::int64_t inputs = 0;
        for (const at::Tensor& tensor : batch_.tensors()) {
            inputs += static_cast<std::int64_t>(tensor.nbytes());
        }
        std::int64_t optimizer = 0;
        for (const at::Tensor& tensor : optimizer_.tensors()) {
            optimizer += static_cast<std::int64_t>(tensor.nbytes());
        }
        const std::int64_t state = state_bytes(plan_.model->state());
        return {.parameters = state,
                .gradients = state_bytes(plan_.model->trainable_parameters()),
                .optimizer = optimizer,
                .average = options_.ema > 0 ? state : 0,
                .buffers = 0,
                .activations = peak->peak + inputs};
    }

    // Measures the model as a sequence of blocks.
    void measure_blocks(MeasuredRank& rank) {
        const std::vector<ModelBlock> blocks = plan_.model->blocks();
        if (blocks.empty()) {
            rank.step.blocks = {{.parameters = state_bytes(plan_.model->parameters()),
                                 .gradients = state_bytes(plan_.model->trainable_parameters())}};
            return;
        }
        optimizer_.zero_grad();
        const std::vector<double> seconds =
            stoker::measure_blocks(*plan_.model, plan_.task, batch_.size(), options_.precision, plan_.device);
        const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
        at::Tensor x = batch_.input;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            const auto [output, activations, passing] = block_memory(blocks[i], x);
            x = output;
            rank.block_names.push_back(blocks[i].name);
            rank.blocks.push_back({.seconds = seconds[i],
                                   .activations = activations,
                                   .passing = passing,
                                   .output = static_cast<std::int64_t>(x.nbytes()),
                                   .parameters = state_bytes(of_block(plan_.model->state(), blocks[i])),
                                   .gradients = state_bytes(of_block(plan_.model->trainable_parameters(), blocks[i]))});
            rank.step.blocks.push_back({.share = seconds[i] / all,
                                        .parameters = state_bytes(of_block(plan_.model->parameters(), blocks[i])),
                                        .gradients = rank.blocks[i].gradients});
        }
        optimizer_.zero_grad();
    }

    void describe(MeasuredRank& rank) const {
        rank.samples = samples_;
        rank.device = plan_.device.str();
        rank.threads = at::get_num_threads();
        rank.parameters = parameters_;
    }

  private:
    struct BlockMemory {
        at::Tensor output;
        SampleBytes activations;
        SampleBytes passing;
    };

    // A block's memory as a function of the samples: measured with all of them, and with the first half.
    BlockMemory block_memory(const ModelBlock& block, const at::Tensor& x) const {
        const auto [output, activations, passing] = block_bytes(block, x);
        const std::int64_t samples = x.size(0);
        if (samples < 2) {
            return {output, {.grows = activations}, {.grows = passing}};
        }
        const at::Tensor first = x.detach().narrow(0, 0, samples / 2).requires_grad_(x.requires_grad());
        const BlockBytes half = block_bytes(block, first);
        const double share = static_cast<double>(samples / 2) / static_cast<double>(samples);
        return {output, SampleBytes::measured(activations, half.activations, share),
                SampleBytes::measured(passing, half.passing, share)};
    }

    struct BlockBytes {
        at::Tensor output;  // a leaf
        double activations;
        double passing;
    };

    BlockBytes block_bytes(const ModelBlock& block, const at::Tensor& x) const {
        const auto counter = std::make_shared<PeakMemory>();
        const c10::DebugInfoGuard counted(c10::DebugInfoKind::PROFILER_STATE, counter);
        const Autocast autocast(options_.precision, plan_.device);
        const at::Tensor output = block.forward(x);
        const auto activations = static_cast<double>(counter->held);
        const auto passing = static_cast<double>(memory_of_backward(output, *counter));
        return {output.detach().requires_grad_(output.is_floating_point()), activations, passing};
    }

    // The most bytes that the block's backward pass takes besides the saved tensors and the gradient of its output.
    // Gradients of its weights exist, as in all micro-batches but the first. The saved tensors are freed.
    static std::int64_t memory_of_backward(const at::Tensor& output, PeakMemory& counter) {
        if (!output.requires_grad()) {
            return 0;
        }
        const at::Tensor gradient = at::ones_like(output).detach();
        output.backward(gradient, /*retain_graph=*/true);
        const std::int64_t before = counter.peak = counter.held;
        output.backward(gradient);
        return counter.peak - before;
    }

    static std::vector<NamedTensor> of_block(std::vector<NamedTensor> tensors, const ModelBlock& block) {
        std::erase_if(tensors, [&](const NamedTensor& entry) { return !block.has(entry.name); });
        return tensors;
    }

    static RecipeData training_data(const Recipe& recipe) {
        RecipeData data = open_train_data(recipe.data);
        data.val = nullptr;
        return data;
    }

    // The rank's samples, and the whole model. No worker reads meanwhile: it would take the step's cores.
    static Recipe of_one_process(Recipe recipe, std::int64_t samples) {
        recipe.train.mesh = {};
        recipe.data.batch_size = samples;
        recipe.data.workers = 0;
        recipe.data.prefetch = 1;
        return recipe;
    }

    // The parameters of the model, or of a slice of it: then the sums over `ranks` ranks are noted, and not made.
    std::vector<NamedTensor> own_parameters(int ranks) {
        for (const auto& [name, tensor] : plan_.model->parameters()) {
            parameters_ += tensor.numel();
        }
        if (ranks > 1) {
            plan_.model->divide({.size = ranks, .sum = [this](const at::Tensor& values) {
                                     sums_.push_back(static_cast<std::int64_t>(values.nbytes()));
                                 }});
        }
        return plan_.model->trainable_parameters();
    }

    std::vector<std::int64_t> synced_norms() const {
        std::vector<std::int64_t> channels;
        for (const auto& [name, tensor] : plan_.model->buffers()) {
            if (options_.sync_batch_norm && name.ends_with("running_mean")) {
                channels.push_back(tensor.numel());
            }
        }
        return channels;
    }

    std::int64_t samples_;            // of the rank, in a step
    std::int64_t parameters_ = 0;     // of the whole model
    std::vector<std::int64_t> sums_;  // of a step, in bytes
    TrainPlan plan_;
    StepOptions options_;
    Optimizer optimizer_;
    DeviceBatch batch_;
    std::vector<GradientReady> found_;
    std::chrono::steady_clock::time_point backward_began_;
};

// The same step with every moment that of the slowest rank: a bucket is sent when all ranks have its gradients. `stop`
// becomes true on all ranks where it is on one.
RankStep slowest(RankStep step, const Group& group, bool& stop) {
    if (group.alone()) {
        return step;
    }
    const double backward_end = step.forward + step.backward;
    std::vector<double> moments = {stop ? 1.0 : 0.0, step.forward, backward_end, backward_end + step.update};
    for (const GradientReady& gradient : step.gradients) {
        moments.push_back(step.forward + gradient.at);
    }
    const at::Tensor mine = at::tensor(moments, at::kDouble);
    const at::Tensor last = group.all_gather(mine).amax(0);
    const std::span<const double> at(last.const_data_ptr<double>(), moments.size());
    stop = at[0] > 0;
    step.forward = at[1];
    step.backward = at[2] - at[1];
    step.update = at[3] - at[2];
    for (std::size_t i = 0; i < step.gradients.size(); ++i) {
        step.gradients[i].at = at[4 + i] - at[1];
    }
    return step;
}

// The steps after a warm-up.
std::vector<RankStep> measure_steps(RankTraining& training, const RankStepOptions& options) {
    const std::shared_ptr<Group> group = options.group ? options.group : std::make_shared<Group>();
    constexpr int kWarmUp = 3;
    std::vector<RankStep> steps;
    bool stop = false;
    for (int round = -kWarmUp; round < options.rounds && (steps.empty() || !stop); ++round) {
        group->barrier();
        const RankStep mine = training.step();
        stop = options.stop && options.stop();
        steps.push_back(slowest(mine, *group, stop));
    }
    steps.erase(steps.begin(), steps.begin() + std::min<std::ptrdiff_t>(kWarmUp, std::ssize(steps) - 1));
    return steps;
}

// Over the ranks.
double mean(double mine, const Group& group) {
    group.all_reduce(std::span(&mine, 1));
    return mine / group.size();
}

// Sends in another thread while this one computes, as Gloo does. All ranks send equally often.
class Sender {
  public:
    explicit Sender(const Group& group) : group_(group) {
        const auto begin = std::chrono::steady_clock::now();
        constexpr int kTries = 4;
        for (int i = 0; i < kTries; ++i) {
            group_.all_reduce(values_);
        }
        seconds_ = mean(seconds_since(begin, values_), group_) / kTries;
    }

    // The bytes that were sent before `work`, which takes about `seconds`, had ended.
    template <typename Work>
    double bytes_during(double seconds, Work&& work) {
        std::atomic<int> sent = 0;
        const int times = std::max(static_cast<int>(mean(seconds, group_) / seconds_), 1);
        std::future<void> sending = std::async(std::launch::async, [&] {
            for (int i = 0; i < times; ++i) {
                group_.all_reduce(values_);
                ++sent;
            }
        });
        work();
        const int before = sent;
        sending.get();
        return 2.0 * (group_.size() - 1) / group_.size() * static_cast<double>(values_.nbytes()) * before;
    }

  private:
    const Group& group_;
    at::Tensor values_ = at::zeros({1 << 18}, at::kFloat);
    double seconds_ = 0;
};

// Link::host: how much longer a step takes for each byte that is sent meanwhile. Steps with and without take turns,
// because the host may also do other things.
double measure_host(RankTraining& training, const Group& group, int rounds) {
    if (group.alone()) {
        return 0;
    }
    Sender sender(group);
    const auto seconds = [&] {
        const RankStep step = training.step();
        return step.forward + step.backward;
    };
    std::vector<double> costs;
    for (int round = 0; round < rounds; ++round) {
        group.barrier();
        const double alone = seconds();
        group.barrier();
        double with = 0;
        const double bytes = sender.bytes_during(alone, [&] { with = seconds(); });
        costs.push_back(bytes > 0 ? (with - alone) / bytes : 0);
    }
    return std::max(mean(median(costs), group), 0.0);
}

double median_of(const std::vector<RankStep>& steps, double RankStep::*member) {
    std::vector<double> values;
    std::ranges::transform(steps, std::back_inserter(values), [&](const RankStep& step) { return step.*member; });
    return median(values);
}

}  // namespace

MeasuredRank measure_rank_step(const Recipe& given, const RankStepOptions& options) {
    require_mesh(options.ranks, given.train.mesh, "stoker plan --ranks");
    if (const std::int64_t copies = options.ranks / given.train.mesh.copy(); given.data.batch_size % copies != 0) {
        throw InvalidArgument({.where = "data.batch_size",
                               .expected = fmt::format("a multiple of the {} {}", copies,
                                                       given.train.mesh.copy() > 1 ? "copies of the model" : "ranks"),
                               .got = fmt::to_string(given.data.batch_size),
                               .hint = fmt::format("--set data.batch_size={}", given.data.batch_size * copies)});
    }
    return with_stoker_errors([&] {
        Recipe recipe = given;
        recipe.train.keep_best.clear();
        recipe.train.early_stop = 0;  // nothing is evaluated
        recipe.data.cache = "none";
        RankTraining training(recipe, options.ranks);
        std::vector<RankStep> steps = measure_steps(training, options);
        MeasuredRank rank;
        // The time line of the step whose backward pass is the median.
        std::ranges::sort(steps, {}, &RankStep::backward);
        rank.step = steps[steps.size() / 2];
        rank.step.forward = median_of(steps, &RankStep::forward);
        rank.step.update = median_of(steps, &RankStep::update);
        rank.host_seconds = options.group ? measure_host(training, *options.group, (options.rounds + 1) / 2) : 0;
        rank.memory = training.memory();
        training.measure_blocks(rank);
        training.describe(rank);
        return rank;
    });
}

}  // namespace stoker
