// Phases of the account are entered here and nowhere deeper.
#include "stoker/train/step.h"

#include <ATen/ops/zeros.h>

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

}  // namespace stoker
