// The steps of ranks that train one model together.
#include <algorithm>
#include <iterator>

#include "stoker/dist/gradient_reducer.h"
#include "stoker/train/step/divided_gradients.h"
#include "stoker/train/step/eager_step.h"

namespace stoker {
namespace {

class DataParallelStep : public EagerStep {
  public:
    DataParallelStep(const StepParts& parts, const std::string& why) : EagerStep(parts, why) {
        if (ranks_.data != nullptr) {
            std::vector<at::Tensor> trained;
            std::ranges::transform(model_.trainable_parameters(), std::back_inserter(trained), &NamedTensor::tensor);
            reducer_.emplace(*ranks_.data, trained, options_.compress_gradients);
        }
    }

  protected:
    void pass_backward(const at::Tensor& output, const at::Tensor& gradient, bool last) override {
        if (!reducer_) {
            model_.backward(output, gradient);
            return;
        }
        if (last) {
            reducer_->prepare();
        }
        ranks_.data->guard([&] { model_.backward(output, gradient); });
        if (last && !reducer_->complete()) {
            refuse_missing_gradients(model_.trainable_parameters());
        }
    }
    void without_samples() override {
        reducer_->reduce_zeros();
        reducer_->complete();
    }

  private:
    std::optional<GradientReducer> reducer_;  // none if the model, or this stage, has one copy
};

class PipelinedStep final : public DataParallelStep {
  public:
    PipelinedStep(const StepParts& parts, const std::string& why)
        : DataParallelStep(parts, why), pipeline_(*parts.ranks.stage, parts.account) {}

    std::optional<double> take_idle_share() override { return pipeline_.take_idle_share().value_or(0); }

  private:
    void run_passes(std::int64_t samples, std::int64_t parts, const PipelineStep::Passes& passes) override {
        pipeline_.run(samples, parts, passes);
    }
    at::Tensor pass_forward(const DeviceBatch& batch, const at::Tensor& input) override {
        at::Tensor output = model_.forward_stage(input.defined() ? input : batch.input);
        if (!pipeline_.last()) {
            return output;
        }
        return batch.size() == 0 ? output.sum() : compute_loss(output, batch, options_.loss);
    }
    SumOverRanks sum_of_parts() override {
        return [this](const at::Tensor& values) { pipeline_.sum(values); };
    }

    PipelineStep pipeline_;
};

class ShardedStep final : public EagerStep {
  public:
    ShardedStep(const StepParts& parts, const std::string& why) : EagerStep(parts, why), shards_(*parts.ranks.full) {
        shards_.reduce_in(options_.compress_gradients);
        shards_.measure(account_);
    }

  private:
    at::Tensor pass_forward(const DeviceBatch& batch, const at::Tensor& /*input*/) override {
        if (batch.size() > 0) {
            return shards_.loss(batch, options_.loss);
        }
        if (options_.sync_batch_norm) {
            return shards_.outputs(batch).sum();
        }
        shards_.forward_without_samples();
        return {};
    }
    void pass_backward(const at::Tensor& output, const at::Tensor& gradient, bool /*last*/) override {
        if (output.defined()) {
            shards_.backward(output, gradient);
        } else {
            shards_.backward_without_samples();
        }
    }
    SumOverRanks sum_of_parts() override {
        return [this](const at::Tensor& values) { ranks_.data->all_reduce(values); };
    }

    FullyShardedModel& shards_;
};

}  // namespace

std::unique_ptr<Step> make_rank_step(const StepParts& parts) {
    const std::string why = parts.options.compile ? "several processes train one model" : "train.compile is none";
    if (parts.ranks.full != nullptr) {
        return std::make_unique<ShardedStep>(parts, why);
    }
    if (parts.ranks.stage) {
        return std::make_unique<PipelinedStep>(parts, why);
    }
    return std::make_unique<DataParallelStep>(parts, why);
}

}  // namespace stoker
