#include "engine/tune/trial_data.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "engine/tune/data_part.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/process_memory.h"
#include "stoker/bridge/device_memory.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/formats/subset.h"

namespace stoker::cli {
namespace {

constexpr std::int64_t kEpochs = std::int64_t{1} << 30;

// At rest a process takes less CPU time in a window than this share of it.
constexpr std::chrono::milliseconds kRestWindow{40};
constexpr double kRestShare = 0.05;

Descriptor answers;  // of this process

double process_cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <typename Times>
void subtract(Times& times, const Times& before) {
    for (std::size_t i = 0; i < times.size(); ++i) {
        times[i] -= before[i];
    }
}

std::optional<std::int64_t> device_bytes(const at::Device& device) {
    const std::optional<DeviceMemory> memory = device_memory(device);
    return memory ? std::optional(memory->peak_allocated) : std::nullopt;
}

// The codec of packed data in which all samples have the same.
std::string codec_of(const Dataset& dataset) {
    const auto* stk = dynamic_cast<const StkDataset*>(&dataset);
    const auto codecs = stk == nullptr ? std::map<std::string, std::int64_t>() : stk->codecs();
    return codecs.size() == 1 ? codecs.begin()->first : "";
}

}  // namespace

std::optional<TrialRequest> read_request() {
    std::string line;
    TrialRequest request;
    if (!std::getline(std::cin, line) ||
        !(std::istringstream(line) >> request.name >> request.seconds >> request.count)) {
        return std::nullopt;
    }
    return request;
}

void keep_stdout_for_answers() {
    answers = Descriptor(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    const Descriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (answers.get() < 0 || nowhere.get() < 0 || dup2(nowhere.get(), STDOUT_FILENO) < 0) {
        throw errno_error("standard output", "a descriptor for answers alone");
    }
}

void answer(const std::string& line) {
    const std::string whole = line + "\n";
    write_bytes(answers.get(), std::as_bytes(std::span(whole)));
}

Recipe endless(Recipe recipe) {
    recipe.train.epochs = kEpochs;
    recipe.train.stop_at_nan = false;
    return recipe;
}

Recipe trial_recipe(Recipe recipe) {
    recipe.data.val.clear();
    recipe.data.jpeg_index = false;  // the later of two trials would decode less
    recipe.train.keep_best.clear();
    recipe.train.early_stop = 0;
    return endless(std::move(recipe));
}

RecipeData open_trial_data(const TrialOptions& options) {
    RecipeData data = open_train_data(options.recipe.data);
    data.val = nullptr;
    if (data.train_parts.size() == 1) {
        data.train = part_of(data.train, options.samples);
        data.train_parts = {data.train->size()};
    }
    return data;
}

TrialFacts facts_of(const RecipeData& data, const Loader& loader, const at::Device& device, std::string compiled) {
    const auto* subset = dynamic_cast<const Subset*>(data.train.get());
    const Dataset& all = subset != nullptr ? *subset->dataset() : *data.train;
    const CpuCores cores = cpu_cores();
    const double shared = cores.quota > 0 ? std::min<double>(cores.affinity, cores.quota) : cores.affinity;
    return {.device = device.str(),
            .samples = all.size(),
            .trial_samples = data.train->size(),
            .data_bytes = all.bytes(),
            .workers = loader.workers(),
            .threads = at::get_num_threads(),
            .cores = shared / cores.ranks_on_host,
            .format = std::string(all.format()),
            .codec = codec_of(all),
            .compiled = std::move(compiled),
            .memory_left = static_cast<double>(memory_left())};
}

int warm_up_steps(const at::Device& device) {
    return device.is_cpu() ? 2 : 5;
}

void synchronize(const at::Device& device) {
    if (!device.is_cpu()) {
        c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    }
}

void Stopwatch::begin(const StepRecord& account) {
    synchronize(device_);
    account_ = account;
    workers_ = loader_.stats().workers;
    cpu_seconds_ = process_cpu_seconds();
    images_ = 0;
    steps_ = 0;
    begin_ = Clock::now();
}

Measurement Stopwatch::end(const StepRecord& account) const {
    synchronize(device_);
    Measurement done{.images = images_,
                     .steps = steps_,
                     .seconds = seconds(),
                     .cpu_seconds = process_cpu_seconds() - cpu_seconds_,
                     .peak_rss_mb = peak_rss_mb(),
                     .device_bytes = device_bytes(device_),
                     .host = account,
                     .workers = loader_.stats().workers,
                     .cached_bytes = loader_.stats().cached_bytes};
    subtract(done.host.times, account_.times);
    subtract(done.workers.times, workers_.times);
    done.workers.samples -= workers_.samples;
    return done;
}

void Stopwatch::wait_for_rest() const {
    const auto start = Clock::now();
    bool at_rest = false;
    while (!at_rest && std::chrono::duration<double>(Clock::now() - start).count() < kMostRestSeconds) {
        const double before = process_cpu_seconds();
        std::this_thread::sleep_for(kRestWindow);
        const double used = process_cpu_seconds() - before;
        at_rest = loader_.at_rest() && used < kRestShare * std::chrono::duration<double>(kRestWindow).count();
    }
}

}  // namespace stoker::cli
