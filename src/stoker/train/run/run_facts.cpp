#include "stoker/train/run/run_facts.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/cpu_features.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/url_secrets.h"
#include "stoker/bridge/device.h"
#include "stoker/bridge/device_memory.h"
#include "stoker/codecs/codec.h"
#include "stoker/io/byte_file.h"
#include "stoker/monitor/storage.h"
#include "stoker/train/run/image_options.h"
#include "stoker/train/run/run_setup.h"

namespace stoker {
namespace {

HostFacts host_facts() {
    const CpuCores cores = cpu_cores();
    const double quota = cores.quota > 0 ? cores.quota : cores.affinity;
    return {.cores = std::min<double>(cores.affinity, quota),
            .affinity = cores.affinity,
            .ranks = cores.ranks_on_host,
            .memory_bytes = static_cast<std::int64_t>(memory_limit().total),
            .avx512_vbmi2 = cpu_features().avx512_vbmi2,
            .processor = cpu_features().model};
}

// Size and codec of samples that are spread over the data; a bad sample is left out.
void probe_samples(const Dataset& dataset, DataFacts& facts) {
    constexpr std::int64_t kProbes = 8;
    if (is_remote(dataset.path())) {
        return;  // each would be a request
    }
    const std::int64_t count = std::min(kProbes, dataset.size());
    double bytes = 0;
    std::int64_t good = 0;
    Sample sample;
    for (std::int64_t i = 0; i < count; ++i) {
        try {
            dataset.read(i * dataset.size() / count, sample);
        } catch (const Error&) {
            continue;
        }
        bytes += static_cast<double>(sample.bytes.size());
        ++good;
        if (const auto codec = sample.encoded ? sniff_codec(sample.bytes) : std::nullopt;
            codec && facts.codec.empty()) {
            facts.codec = codec_name(*codec);
        }
    }
    if (good > 0) {
        facts.sample_bytes = bytes / static_cast<double>(good);
    }
}

// The storage of the first file or folder that data.train names; empty if that is not known.
std::string storage_of_data(const std::string& train) {
    if (is_remote(train)) {
        return storage_name(StorageKind::network);
    }
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(train, error);
    if (error) {
        return "";  // a pattern of shards, or data that Stoker draws
    }
    const StorageKind kind = storage_of(path).kind;
    return kind == StorageKind::unknown ? "" : storage_name(kind);
}

DataFacts data_facts(const TrainPlan& plan) {
    const DataRecipe& recipe = plan.recipe.data;
    const Loader& loader = *plan.train_loader;
    const FieldSpec& first = loader.field_specs().front();
    const std::size_t image_bytes = loader.image_shape().empty()               ? sizeof(float)
                                    : first.deferred && first.deferred->decode ? first.deferred->decode->image_bytes()
                                                                               : first.sample_bytes();
    DataFacts facts{.path = stored_url(recipe.train),
                    .format = std::string(plan.data.train->format()),
                    .storage = storage_of_data(recipe.train),
                    .samples = plan.data.train->size(),
                    .image_bytes = static_cast<double>(image_bytes),
                    .workers = loader.workers(),
                    .prefetch = loader.prefetch(),
                    .cache = loader.indexed_images() == nullptr && recipe.cache == "device" ? "ram" : recipe.cache,
                    .decode = recipe.decode,
                    .decode_on = decodes_on(loader)};
    if (!plan.device.is_cpu()) {
        facts.pinned = slot_allocator(plan.device, recipe.pin_memory).pinned();
    }
    probe_samples(*plan.data.train, facts);
    return facts;
}

std::string precision_name(const Precision& precision) {
    if (precision.autocast) {
        return precision.autocast == at::kHalf ? "fp16" : "bf16";
    }
    return precision.tf32 ? "tf32" : "fp32";
}

std::string model_name(const TrainPlan& plan) {
    if (plan.own_model) {
        return "own";
    }
    const ModelRecipe& model = plan.recipe.model;
    return !model.script.empty() ? model.script : !model.exported.empty() ? model.exported : model.name;
}

double product_seconds(at::ScalarType type) {
    constexpr int kSize = 256;
    constexpr int kRounds = 3;
    const c10::NoGradGuard no_grad;
    const at::Tensor matrix = at::ones({kSize, kSize}, type);
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRounds; ++i) {
        const auto start = std::chrono::steady_clock::now();
        at::mm(matrix, matrix);
        least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return least;
}

DeviceFacts device_facts(const at::Device& device, const Precision& precision) {
    if (!device.is_cuda()) {
        return {.half_speedup = precision.autocast
                                    ? std::optional(product_seconds(at::kFloat) / product_seconds(*precision.autocast))
                                    : std::nullopt};
    }
    DeviceFacts facts{.type = "cuda", .name = device.str()};
    if (const std::optional<CudaDevice> found = device_properties(device)) {
        constexpr int kVolta = 7;  // the first with tensor cores
        facts.name = found->name;
        facts.memory_bytes = static_cast<std::int64_t>(found->memory_bytes);
        facts.compute_major = found->major;
        facts.tensor_cores = found->major >= kVolta;
    }
    return facts;
}

std::string collectives_of(const Group& group) {
    return group.alone() ? "" : group.uses_nccl() ? "nccl" : "gloo";
}

}  // namespace

RunFacts run_facts(const TrainPlan& plan, const Step& step, const Optimizer& optimizer) {
    const Recipe& recipe = plan.recipe;
    const Precision precision = step_options(recipe, plan.task, plan.device).precision;
    RunFacts facts{.writer = "stoker",
                   .rank = plan.group->rank(),
                   .world_size = plan.group->size(),
                   .software = {.stoker = STOKER_VERSION, .torch = TORCH_VERSION},
                   .host = host_facts(),
                   .device = device_facts(plan.device, precision),
                   .data = data_facts(plan),
                   .train = {.model = model_name(plan),
                             .parameters = plan.parameters,
                             .batch_size = recipe.data.batch_size,
                             .steps_per_epoch = plan.train_loader->batches_per_epoch(),
                             .precision = precision_name(precision),
                             .optimizer = recipe.optimizer.name,
                             .optimizer_kernel = optimizer.kernel() == OptimizerKernel::fused ? "fused" : "single",
                             .compiled = step.compiled(),
                             .accumulate = static_cast<int>(step.accumulate()),
                             .threads = at::get_num_threads(),
                             .stages = plan.stage ? partition_text(plan.stage->partition) : "",
                             .pipeline = plan.stage ? recipe.train.pipeline : "",
                             .collectives = collectives_of(*plan.group)}};
    if (plan.val_loader != nullptr) {
        facts.train.val_samples = plan.data.val->size();
        facts.train.epochs_per_evaluation = static_cast<int>(recipe.train.evaluate_every);
    }
    return facts;
}

}  // namespace stoker
