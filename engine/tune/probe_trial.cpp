// Costs of a recipe one by one: the step on a held batch, the loader without steps, reading without decoding.
#include <ATen/Parallel.h>

#include <cmath>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "engine/tune/page_cache.h"
#include "engine/tune/trial_data.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/train/run/evaluate.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/run/train_plan.h"

namespace stoker::cli {
namespace {

constexpr std::int64_t kFetchStride = 7919;  // a prime, so that reading jumps through the data

class Probe {
  public:
    explicit Probe(const TrialOptions& options)
        : plan_(plan_training(trial_recipe(options.recipe), open_trial_data(options), nullptr, false,
                              std::make_shared<Group>())),
          optimizer_(plan_.model->trainable_parameters(), plan_.recipe.optimizer, options.kernel),
          step_(make_step({*plan_.model, optimizer_, account_, plan_.device,
                           step_options(plan_.recipe, plan_.task, plan_.device)})),
          watch_(*plan_.train_loader, plan_.device) {}

    void run() {
        answer(to_json(facts_of(plan_.data, *plan_.train_loader, plan_.device, step_->compiled())));
        batch_ = next();
        plan_.train_loader->set_workers(0);  // they would take the cores of the step
        while (const std::optional<TrialRequest> request = read_request()) {
            answer(to_json(measure(*request)));
        }
    }

  private:
    Measurement measure(const TrialRequest& request) {
        if (request.name == "step") {
            return steps(request);
        }
        return request.name == "load" ? loads(request) : fetches(request);
    }

    std::shared_ptr<Batch> next() {
        std::shared_ptr<Batch> batch;
        while (batch == nullptr) {  // null marks the end of an epoch
            batch = plan_.train_loader->next();
        }
        return batch;
    }

    void skip(std::int64_t batches) {
        for (std::int64_t i = 0; i < batches; ++i) {
            next();
        }
    }

    Measurement steps(const TrialRequest& request) {
        at::set_num_threads(request.count);
        DeviceCopier copier(plan_.device, plan_.task.fields);
        const auto step = [&] {
            DeviceBatch batch = copier.copy(batch_);
            prepare(plan_.task, batch);
            step_->run(batch, plan_.recipe.optimizer.lr);
            if (++unread_ >= 50) {  // as often as training does
                step_->take_losses();
                unread_ = 0;
            }
        };
        for (int i = 0; i < warm_up_steps(plan_.device); ++i) {
            step();
        }
        watch_.begin();
        while (watch_.seconds() < request.seconds) {
            step();
            watch_.add(batch_->size());
        }
        return watch_.end();
    }

    // With a cache the first pass over the data fills it, with all cores, and is not counted.
    Measurement loads(const TrialRequest& request) {
        Loader& loader = *plan_.train_loader;
        if (plan_.recipe.data.cache != "none" && !warm_) {
            loader.set_workers(cpu_cores().usable);
            skip(loader.batches_per_epoch());
            warm_ = true;
        }
        loader.set_workers(request.count);
        skip(plan_.recipe.data.prefetch + 1);
        watch_.begin();
        while (watch_.seconds() < request.seconds) {
            watch_.add(next()->size());
        }
        const Measurement done = watch_.end();
        loader.set_workers(0);
        return done;
    }

    // A folder of shards, whose keys do not name files, is dropped as a whole.
    bool is_sharded() const {
        const std::filesystem::path path = plan_.data.train->path();
        std::error_code unknown;
        return std::filesystem::is_directory(path, unknown) &&
               !std::filesystem::exists(path / plan_.data.train->key(0), unknown);
    }

    void drop_sample(std::int64_t index) const {
        std::filesystem::path path = plan_.data.train->path();
        if (std::error_code unknown; std::filesystem::is_directory(path, unknown)) {
            path /= plan_.data.train->key(index);
        }
        drop_from_page_cache(path);
    }

    Measurement fetches(const TrialRequest& request) {
        const Dataset& dataset = *plan_.data.train;
        const std::int64_t stride = dataset.size() % kFetchStride == 0 ? 1 : kFetchStride;
        const bool sharded = is_sharded();
        if (sharded) {
            drop_from_page_cache(dataset.path());
        }
        const int threads = std::max(request.count, 1);
        std::mutex mutex;  // guards the following, and watch_
        std::int64_t taken = 0;
        std::exception_ptr failure;
        watch_.begin();
        const auto read = [&] {
            Sample sample;
            for (;;) {
                std::int64_t index = 0;
                {
                    const std::lock_guard lock(mutex);
                    if (failure || watch_.seconds() >= request.seconds || taken >= dataset.size()) {
                        return;
                    }
                    index = (taken++ * stride + fetched_) % dataset.size();
                    watch_.add(1);
                }
                try {
                    if (!sharded) {
                        drop_sample(index);
                    }
                    dataset.read(index, sample);
                } catch (const DataError&) {  // the time of a bad sample counts as well
                } catch (...) {
                    const std::lock_guard lock(mutex);
                    failure = failure ? failure : std::current_exception();
                }
            }
        };
        {
            std::vector<std::jthread> readers;
            for (int i = 0; i < threads; ++i) {
                readers.emplace_back(read);
            }
        }
        if (failure) {
            std::rethrow_exception(failure);
        }
        fetched_ += taken;
        return watch_.end();
    }

    TrainPlan plan_;
    Account account_;
    Optimizer optimizer_;
    std::unique_ptr<Step> step_;
    Stopwatch watch_;
    std::shared_ptr<Batch> batch_;
    int unread_ = 0;  // losses
    bool warm_ = false;
    std::int64_t fetched_ = 0;
};

}  // namespace

int serve_probes(const TrialOptions& options) {
    Probe(options).run();
    return 0;
}

}  // namespace stoker::cli
