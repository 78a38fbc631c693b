// Phases of the account are entered here and nowhere deeper.
#include "stoker/train/step.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include "stoker/pipeline/loader.h"

namespace stoker {
namespace {

at::Tensor device_zero(const at::Device& device) {
    return at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device));
}

}  // namespace

Step::Step(Model& model, Optimizer& optimizer, Account& account, const at::Device& device)
    : model_(model), optimizer_(optimizer), account_(account), loss_sum_(device_zero(device)) {}

void Step::run(const DeviceBatch& batch, double lr) {
    at::Tensor loss;  // scalar, the mean over the batch
    {
        const PhaseSpan span(account_, Phase::forward);
        loss = model_.loss(batch.image, batch.label);
    }
    {
        const PhaseSpan span(account_, Phase::backward);
        model_.backward(loss);
    }
    const PhaseSpan span(account_, Phase::optimizer);
    optimizer_.set_lr(lr);
    optimizer_.step();
    optimizer_.zero_grad();
    loss_sum_.add_(loss.detach(), static_cast<double>(batch.label.size(0)));
}

double Step::loss_sum() const {
    return loss_sum_.item<double>();
}

void Step::restore(double loss_sum) {
    loss_sum_.fill_(loss_sum);
}

Evaluation evaluate(Model& model, Loader& loader, const at::Device& device) {
    const c10::InferenceMode inference;
    model.train(false);
    at::Tensor loss = device_zero(device);
    at::Tensor correct = device_zero(device);
    Evaluation result;
    DeviceCopier copier(device);
    while (const auto batch = loader.next()) {
        const DeviceBatch on_device = copier.copy(batch);
        const at::Tensor logits = model.forward(on_device.image);  // (N, classes)
        loss.add_(at::cross_entropy_loss(logits, on_device.label), static_cast<double>(batch->size()));
        correct.add_(logits.argmax(1).eq(on_device.label).sum());
        result.samples += batch->size();
    }
    model.train(true);
    const auto samples = static_cast<double>(result.samples);
    result.loss = loss.item<double>() / samples;
    result.accuracy = correct.item<double>() / samples;
    return result;
}

}  // namespace stoker
