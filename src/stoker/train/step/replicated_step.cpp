// One process with a copy of the model on each device, as torch.nn.DataParallel: in each pass the copies get the
// weights and a part of the batch, and a thread for each device computes.
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "stoker/train/step/eager_step.h"

namespace stoker {
namespace {

DeviceBatch on_device(DeviceBatch batch, const at::Device& device) {
    const auto move = [&device](at::Tensor& tensor) {
        tensor = tensor.defined() ? tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true) : tensor;
    };
    move(batch.input);
    move(batch.target);
    for (DeviceField& field : batch.fields) {
        move(field.tensor);
    }
    batch.in_slot = false;
    return batch;
}

void copy_values(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
        to[i].tensor.copy_(from[i].tensor, /*non_blocking=*/true);
    }
}

class ReplicatedStep final : public EagerStep {
  public:
    explicit ReplicatedStep(const StepParts& parts)
        : EagerStep(parts, "train.data_parallel has copies of the model"), models_{&model_} {
        std::ranges::transform(parts.replicas, std::back_inserter(models_), &std::unique_ptr<Model>::get);
    }

  private:
    // Each device has `share` of the samples of a pass.
    struct Part {
        at::Tensor loss;
        double share = 0;
    };

    at::Tensor pass_forward(const DeviceBatch& batch, const at::Tensor& /*input*/) override {
        const std::int64_t samples = batch.size();
        const std::int64_t count = std::min(std::ssize(models_), samples);
        parts_.assign(static_cast<std::size_t>(count), {});
        prepare_copies();  // before the model's own pass, which may change its buffers
        on_each_device([&](std::size_t i, Model& model) {
            const Autocast autocast(options_.precision, device_of(model));
            const auto part = static_cast<std::int64_t>(i);
            const std::int64_t begin = samples * part / count;
            const std::int64_t size = samples * (part + 1) / count - begin;
            const DeviceBatch own = on_device(batch.narrow(begin, size), device_of(model));
            parts_[i] = {.loss = model.loss(own, options_.loss),
                         .share = static_cast<double>(size) / static_cast<double>(samples)};
        });
        at::Tensor mean = at::zeros({}, last_loss().options());
        for (const Part& part : parts_) {
            mean.add_(part.loss.detach().to(device_), part.share);
        }
        return mean;
    }

    void prepare_copies() {
        const c10::AutoGradMode without_gradients(false);
        for (std::size_t i = 1; i < parts_.size(); ++i) {
            copy_values(model_.parameters(), models_[i]->parameters());
            copy_values(model_.buffers(), models_[i]->buffers());
            for (const NamedTensor& parameter : models_[i]->parameters()) {
                parameter.tensor.mutable_grad().reset();  // of a pass that threw
            }
            models_[i]->train(model_.training());
        }
    }

    void pass_backward(const at::Tensor& /*output*/, const at::Tensor& gradient, bool /*last*/) override {
        on_each_device([&](std::size_t i, Model& model) {
            const Part& part = parts_[i];
            const at::Tensor share = at::scalar_tensor(part.share, part.loss.options());
            model.backward(part.loss, gradient.defined() ? gradient.to(share.options()).mul(share) : share);
        });
        const c10::AutoGradMode without_gradients(false);
        for (std::size_t i = 1; i < parts_.size(); ++i) {
            add_gradients(models_[i]->parameters());
        }
        parts_.clear();
    }

    // Moves those of a copy to the model's own.
    void add_gradients(const std::vector<NamedTensor>& copies) {
        for (std::size_t i = 0; i < copies.size(); ++i) {
            const at::Tensor gradient = copies[i].tensor.grad();
            if (!gradient.defined()) {
                continue;
            }
            at::Tensor& sum = model_.parameters()[i].tensor.mutable_grad();
            sum = sum.defined() ? sum.add_(gradient.to(device_))
                                : gradient.to(device_, gradient.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
            copies[i].tensor.mutable_grad().reset();
        }
    }

    static at::Device device_of(const Model& model) { return model.parameters().front().tensor.device(); }

    // Calls `work` for each part: the first in this thread, each other one in another.
    template <typename Work>
    void on_each_device(const Work& work) {
        std::vector<std::exception_ptr> errors(parts_.size());
        const auto run = [&](std::size_t i) {
            try {
                const c10::DeviceGuard guard(device_of(*models_[i]));
                work(i, *models_[i]);
            } catch (...) {
                errors[i] = std::current_exception();
            }
        };
        std::vector<std::jthread> threads;
        for (std::size_t i = 1; i < parts_.size(); ++i) {
            threads.emplace_back(run, i);
        }
        run(0);
        threads.clear();
        if (const auto error = std::ranges::find_if(errors, [](const auto& e) { return e != nullptr; });
            error != errors.end()) {
            std::rethrow_exception(*error);
        }
    }

    std::vector<Model*> models_;  // the model itself, and its copies
    std::vector<Part> parts_;     // of the pass
};

}  // namespace

std::unique_ptr<Step> make_replicated_step(const StepParts& parts) {
    return std::make_unique<ReplicatedStep>(parts);
}

}  // namespace stoker
