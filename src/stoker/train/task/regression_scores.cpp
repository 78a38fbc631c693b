// The spread of the targets is summed around the mean so far (Chan, Golub and LeVeque's update): a sum of squares would
// lose the digits of targets that are large beside their spread.
#include "stoker/train/task/scores.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <span>

namespace stoker {
namespace {

class RegressionScores final : public Scores {
  public:
    RegressionScores(const Task& task, const at::Device& device)
        : values_(task.outputs), options_({.kind = task.loss.kind}) {
        const auto options = at::TensorOptions().dtype(at::kDouble).device(device);
        sums_ = at::zeros({2}, options);
        squares_ = at::zeros({values_}, options);
        mean_ = at::zeros({values_}, options);
        spread_ = at::zeros({values_}, options);
    }

    void add(const at::Tensor& outputs, const DeviceBatch& batch) override {
        const at::Tensor target = batch.target.to(at::kDouble);  // (N, values)
        const at::Tensor error = outputs.reshape(target.sizes()).to(at::kDouble).sub(target);
        const at::Tensor sums =
            at::stack({element_losses(outputs, batch.target, options_).sum(at::kDouble), error.abs().sum()});
        const at::Tensor squares = error.square().sum(0);
        const auto before = static_cast<double>(samples_);
        const auto added = static_cast<double>(batch.size());
        const at::Tensor own_mean = target.mean(0);
        const at::Tensor shift = own_mean.sub(mean_);
        const at::Tensor own_spread = target.sub(own_mean).square().sum(0);
        const at::Tensor shift_square = shift.square();
        sums_.add_(sums);
        squares_.add_(squares);
        spread_.add_(own_spread).add_(shift_square, before * added / (before + added));
        mean_.add_(shift, added / (before + added));
        samples_ += batch.size();
    }

    void fetch() override {
        const at::Tensor samples = at::zeros({1}, at::kDouble).fill_(static_cast<double>(samples_));
        const at::Tensor figures = at::cat({sums_, squares_, mean_, spread_}).to(at::kCPU);
        on_host_ = at::cat({samples, figures});  // (3 + 3 * values)
    }

    Figures figures(const Group& group) override {
        const at::Tensor all = group.all_gather(on_host_).contiguous();  // (ranks, 3 + 3 * values)
        const auto values = static_cast<std::size_t>(values_);
        const auto width = static_cast<std::size_t>(all.size(1));
        std::vector<double> sum(all.const_data_ptr<double>(), all.const_data_ptr<double>() + width);
        for (std::size_t rank = 1; rank < static_cast<std::size_t>(all.size(0)); ++rank) {
            merge(sum, {all.const_data_ptr<double>() + rank * width, width}, values);
        }
        const double elements = sum[0] * static_cast<double>(values);
        double rmse = 0;
        double r2 = 0;
        for (std::size_t i = 0; i < values; ++i) {
            const double error = sum[3 + i];
            const double spread = sum[3 + 2 * values + i];
            rmse += std::sqrt(error / sum[0]) / static_cast<double>(values);
            r2 += (spread > 0 ? 1 - error / spread : error == 0 ? 1 : 0) / static_cast<double>(values);
        }
        return {.loss = sum[1] / elements,
                .metrics = {{"mae", sum[2] / elements, false}, {"rmse", rmse, false}, {"r2", r2}}};
    }

  private:
    // Adds the figures of another rank: samples, loss, absolute errors, squares, means, spreads.
    static void merge(std::vector<double>& sum, std::span<const double> other, std::size_t values) {
        const double all = sum[0] + other[0];
        for (std::size_t i = 0; all > 0 && i < values; ++i) {
            double& mean = sum[3 + values + i];
            const double shift = other[3 + values + i] - mean;
            sum[3 + 2 * values + i] += other[3 + 2 * values + i] + shift * shift * sum[0] * other[0] / all;
            mean += shift * other[0] / all;
        }
        for (std::size_t i = 0; i < 3 + values; ++i) {
            sum[i] += other[i];
        }
    }

    std::int64_t values_;  // of a sample
    LossOptions options_;
    std::int64_t samples_ = 0;
    at::Tensor sums_;     // (2): loss and absolute errors of all values
    at::Tensor squares_;  // (values): squared errors
    at::Tensor mean_;     // (values): of the targets
    at::Tensor spread_;   // (values): squared distances of the targets from their mean
    at::Tensor on_host_ = {};
};

}  // namespace

std::unique_ptr<Scores> make_regression_scores(const Task& task, const at::Device& device) {
    return std::make_unique<RegressionScores>(task, device);
}

}  // namespace stoker
