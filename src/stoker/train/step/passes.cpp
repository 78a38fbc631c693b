#include "stoker/train/step/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/dist/gradient_reducer.h"
#include "stoker/models/loss.h"
#include "stoker/train/step/missing_gradients.h"
#include "stoker/train/step/step_context.h"

namespace stoker {
namespace {

// The loss of a program may be anything.
at::Tensor checked(at::Tensor loss) {
    if (!loss.defined() || loss.dim() != 0 || !loss.is_floating_point()) {
        throw InvalidArgument({.where = "loss",
                               .expected = "a scalar, the mean over the batch",
                               .got = loss.defined() ? fmt::format("{} [{}]", at::toString(loss.scalar_type()),
                                                                   fmt::join(loss.sizes(), ", "))
                                                     : "an undefined tensor"});
    }
    return loss;
}

std::vector<at::Tensor> trained_tensors(const Model& model) {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : model.trainable_parameters()) {
        tensors.push_back(tensor);
    }
    return tensors;
}

std::vector<std::string> without_gradient(const Model& model) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model.trainable_parameters()) {
        if (!tensor.grad().defined()) {
            names.push_back(name);
        }
    }
    return names;
}

class WholePasses : public Passes {
  public:
    explicit WholePasses(StepContext& context) : context_(context) {}

    // The mean over no samples is not a number; a sum has gradients of zeros.
    at::Tensor forward(const DeviceBatch& batch, const at::Tensor& /*input*/) override {
        return checked(batch.size() == 0 ? context_.model.outputs(batch).sum()
                                         : context_.model.loss(batch, context_.options.loss));
    }
    void backward(const at::Tensor& output, const at::Tensor& gradient, bool /*last*/) override {
        context_.model.backward(output, gradient);
    }

  protected:
    StepContext& context_;
};

class DataParallelPasses final : public WholePasses {
  public:
    explicit DataParallelPasses(StepContext& context)
        : WholePasses(context),
          reducer_(*context.data.group(), trained_tensors(context.model), context.options.compress_gradients) {}

    bool together() const override { return context_.data.syncs(); }
    void backward(const at::Tensor& output, const at::Tensor& gradient, bool last) override {
        if (last) {
            reducer_.prepare();
        }
        context_.data.group()->guard([&] { context_.model.backward(output, gradient); });
        if (last && !reducer_.complete()) {
            refuse_missing_gradients(without_gradient(context_.model));
        }
    }
    void without_samples() override {
        reducer_.reduce_zeros();
        reducer_.complete();
    }

  private:
    GradientReducer reducer_;
};

class ShardedPasses final : public Passes {
  public:
    ShardedPasses(StepContext& context, FullyShardedModel& model) : context_(context), model_(model) {
        model.reduce_in(context.options.compress_gradients);
        model.measure(context.account);
    }

    bool together() const override { return true; }
    at::Tensor forward(const DeviceBatch& batch, const at::Tensor& /*input*/) override {
        if (batch.size() > 0 || context_.data.syncs()) {
            return checked(batch.size() == 0 ? model_.outputs(batch).sum() : model_.loss(batch, context_.options.loss));
        }
        model_.forward_without_samples();
        return {};
    }
    void backward(const at::Tensor& output, const at::Tensor& gradient, bool /*last*/) override {
        if (output.defined()) {
            model_.backward(output, gradient);
        } else {
            model_.backward_without_samples();
        }
    }
    SumOverRanks sum_of_parts() override {
        return [this](const at::Tensor& values) { context_.data.group()->all_reduce(values); };
    }

  private:
    StepContext& context_;
    FullyShardedModel& model_;
};

class StagePasses final : public Passes {
  public:
    // `copies`: the backward passes of the stage, which the model's other copies may share.
    StagePasses(StepContext& context, const StagePlan& plan, std::unique_ptr<Passes> copies)
        : context_(context), pipeline_(plan, context.account), copies_(std::move(copies)) {}

    void run(std::int64_t samples, std::int64_t parts, const MicroBatchPasses& passes) override {
        pipeline_.run(samples, parts, passes);
    }
    bool together() const override { return copies_->together(); }
    at::Tensor forward(const DeviceBatch& batch, const at::Tensor& input) override {
        const at::Tensor output = context_.model.forward_stage(input.defined() ? input : batch.input);
        if (!pipeline_.last()) {
            return output;
        }
        return checked(batch.size() == 0 ? output.sum() : compute_loss(output, batch, context_.options.loss));
    }
    void backward(const at::Tensor& output, const at::Tensor& gradient, bool last) override {
        copies_->backward(output, gradient, last);
    }
    void without_samples() override { copies_->without_samples(); }
    SumOverRanks sum_of_parts() override {
        return [this](const at::Tensor& values) { pipeline_.sum(values); };
    }
    std::optional<double> take_idle_share() override { return pipeline_.take_idle_share().value_or(0); }

  private:
    StepContext& context_;
    PipelineStep pipeline_;
    std::unique_ptr<Passes> copies_;
};

}  // namespace

void Passes::run(std::int64_t /*samples*/, std::int64_t parts, const MicroBatchPasses& passes) {
    for (std::int64_t part = 0; part < parts; ++part) {
        passes.backward(part, passes.forward(part, {}), {});
    }
}

std::unique_ptr<Passes> make_passes(StepContext& context, const StepRanks& ranks) {
    if (ranks.full != nullptr) {
        return std::make_unique<ShardedPasses>(context, *ranks.full);
    }
    std::unique_ptr<Passes> passes;
    if (context.data.group() != nullptr) {
        passes = std::make_unique<DataParallelPasses>(context);
    } else {
        passes = std::make_unique<WholePasses>(context);
    }
    return ranks.stage ? std::make_unique<StagePasses>(context, *ranks.stage, std::move(passes)) : std::move(passes);
}

}  // namespace stoker
