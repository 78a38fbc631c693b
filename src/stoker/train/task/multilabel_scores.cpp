#include "stoker/train/task/scores.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace stoker {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The rows of all ranks, which may have different numbers of them.
at::Tensor gather_rows(const at::Tensor& mine, const Group& group) {
    if (group.alone()) {
        return mine;
    }
    const at::Tensor rows = group.all_gather(at::full({1}, mine.size(0), at::kLong)).flatten();  // (ranks)
    const auto most = rows.max().item<std::int64_t>();
    const at::Tensor all = group.all_gather(at::constant_pad_nd(mine, {0, 0, 0, most - mine.size(0)}));
    std::vector<at::Tensor> parts;
    for (std::int64_t rank = 0; rank < group.size(); ++rank) {
        parts.push_back(all[rank].narrow(0, 0, rows[rank].item<std::int64_t>()));
    }
    return at::cat(parts);
}

class MultilabelScores final : public Scores {
  public:
    MultilabelScores(const Task& task, const at::Device& device)
        : labels_(task.outputs),
          options_({.kind = LossKind::binary_cross_entropy}),
          loss_(at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device))),
          counts_(at::zeros({3, labels_}, at::TensorOptions().dtype(at::kLong).device(device))) {}

    void add(const at::Tensor& outputs, const DeviceBatch& batch) override {
        const at::Tensor loss = element_losses(outputs, batch.target, options_).sum(at::kDouble);
        const at::Tensor logits = outputs.reshape(batch.target.sizes()).to(at::kFloat);
        const at::Tensor predicted = logits.gt(0);  // (N, labels)
        const at::Tensor present = batch.target.gt(0.5);
        const at::Tensor hits = predicted.logical_and(present).sum(0);
        const at::Tensor counts = at::stack({hits, predicted.sum(0).sub(hits), present.sum(0).sub(hits)});
        const at::Tensor bytes = present.to(at::kByte);
        loss_.add_(loss);
        counts_.add_(counts);
        logits_.push_back(logits);
        present_.push_back(bytes);
    }

    void fetch() override {
        // Part by part, since the device may not hold them twice.
        const auto on_host = [&](std::vector<at::Tensor>& parts, at::ScalarType type) {
            std::int64_t rows = 0;
            for (const at::Tensor& part : parts) {
                rows += part.size(0);
            }
            at::Tensor all = at::empty({rows, labels_}, type);
            rows = 0;
            for (at::Tensor& part : parts) {
                all.narrow(0, rows, part.size(0)).copy_(part);
                rows += part.size(0);
                part.reset();
            }
            parts.clear();
            return all;
        };
        all_logits_ = on_host(logits_, at::kFloat);
        all_present_ = on_host(present_, at::kByte);
        const at::Tensor counts = at::cat({loss_.unsqueeze(0), counts_.flatten().to(at::kDouble)}).to(at::kCPU);
        sums_.assign(counts.const_data_ptr<double>(), counts.const_data_ptr<double>() + counts.numel());
        sums_.push_back(static_cast<double>(all_logits_.numel()));
    }

    Figures figures(const Group& group) override {
        group.all_reduce(sums_);
        const std::span<const double> counts = std::span(sums_).subspan(1);
        const auto labels = static_cast<std::size_t>(labels_);
        const auto f1 = [](double hits, double wrong, double missed) {
            const double all = 2 * hits + wrong + missed;
            return all == 0 ? 0 : 2 * hits / all;
        };
        double macro = 0;
        double total[3] = {};
        for (std::size_t i = 0; i < labels; ++i) {
            macro += f1(counts[i], counts[labels + i], counts[2 * labels + i]) / static_cast<double>(labels);
            for (std::size_t kind = 0; kind < 3; ++kind) {
                total[kind] += counts[kind * labels + i];
            }
        }
        return {.loss = sums_.front() / sums_.back(),
                .metrics = {{"map", mean_average_precision(group)},
                            {"f1_micro", f1(total[0], total[1], total[2])},
                            {"f1_macro", macro}}};
    }

  private:
    // Over the labels that occur.
    double mean_average_precision(const Group& group) const {
        const at::Tensor logits = gather_rows(all_logits_, group).t().contiguous();    // (labels, N)
        const at::Tensor present = gather_rows(all_present_, group).t().contiguous();  // (labels, N)
        if (logits.isnan().any().item<bool>()) {
            return kNone;
        }
        const auto samples = static_cast<std::size_t>(logits.size(1));
        double sum = 0;
        double occurring = 0;
        for (std::int64_t i = 0; i < labels_; ++i) {
            const double precision = average_precision({logits[i].const_data_ptr<float>(), samples},
                                                       {present[i].const_data_ptr<std::uint8_t>(), samples});
            if (!std::isnan(precision)) {
                sum += precision;
                ++occurring;
            }
        }
        return occurring == 0 ? kNone : sum / occurring;
    }

    std::int64_t labels_;
    LossOptions options_;
    at::Tensor loss_;                       // float64 scalar
    at::Tensor counts_;                     // int64 (3, labels): right, wrongly predicted and missed ones
    std::vector<at::Tensor> logits_ = {};   // float32 (N, labels) of each batch
    std::vector<at::Tensor> present_ = {};  // uint8, the same
    at::Tensor all_logits_ = {};            // of this rank, on the host
    at::Tensor all_present_ = {};
    std::vector<double> sums_ = {};  // loss, counts, elements
};

}  // namespace

double average_precision(std::span<const float> scores, std::span<const std::uint8_t> positive) {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    const auto positives = static_cast<double>(std::ranges::count_if(positive, [](auto is) { return is != 0; }));
    double sum = 0;
    double found = 0;
    for (std::size_t i = 0; i < order.size();) {
        const double before = found;
        const float threshold = scores[order[i]];
        for (; i < order.size() && scores[order[i]] == threshold; ++i) {
            found += positive[order[i]] != 0 ? 1 : 0;
        }
        sum += (found - before) * found / static_cast<double>(i);
    }
    return positives == 0 ? kNone : sum / positives;
}

std::unique_ptr<Scores> make_multilabel_scores(const Task& task, const at::Device& device) {
    return std::make_unique<MultilabelScores>(task, device);
}

}  // namespace stoker
