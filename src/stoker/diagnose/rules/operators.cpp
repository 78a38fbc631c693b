// Operators that something faster could replace.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

constexpr double kOperatorWarn = 0.05;  // of the time
constexpr double kOperatorInfo = 0.01;
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

Severity severity_from(double share, double warn = kOperatorWarn) {
    return share >= warn ? Severity::warn : Severity::info;
}

// "[[100, 250], [250, 30]]": the sizes of each input.
std::vector<std::vector<std::int64_t>> sizes_of(std::string_view shapes) {
    std::vector<std::vector<std::int64_t>> inputs;
    int depth = 0;
    for (std::size_t at = 0; at < shapes.size(); ++at) {
        const char letter = shapes[at];
        depth += letter == '[' ? 1 : letter == ']' ? -1 : 0;
        if (letter == '[' && depth == 2) {
            inputs.emplace_back();
        } else if (letter >= '0' && letter <= '9' && depth == 2) {
            std::int64_t size = 0;
            for (; at < shapes.size() && shapes[at] >= '0' && shapes[at] <= '9' && size < kMostSize; ++at) {
                size = size * 10 + (shapes[at] - '0');
            }
            --at;
            inputs.back().push_back(size);
        }
    }
    return inputs;
}

// A product of matrices (rows, inner) and (inner, columns); of bmm for each of a batch.
struct Product {
    std::int64_t rows = 0;
    std::int64_t inner = 0;
    std::int64_t columns = 0;
};

// For aten::mm, addmm, bmm and baddbmm, whose matrices are the last inputs that have sizes.
std::optional<Product> product_of(const OperatorEntry& op) {
    constexpr std::array<std::string_view, 4> kProducts = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"};
    if (std::ranges::find(kProducts, op.name) == kProducts.end()) {
        return std::nullopt;
    }
    std::vector<std::vector<std::int64_t>> inputs = sizes_of(op.shapes);
    std::erase_if(inputs, [](const auto& sizes) { return sizes.size() < 2; });
    if (inputs.size() < 2) {
        return std::nullopt;
    }
    const std::vector<std::int64_t>& a = inputs[inputs.size() - 2];
    const std::vector<std::int64_t>& b = inputs.back();
    return Product{.rows = a[a.size() - 2], .inner = a.back(), .columns = b.back()};
}

// A product's size that is not a multiple of 8, and its kind; 0: there is none. A backward pass multiplies over
// the rows of the forward pass, which are samples or tokens and no width of a layer.
struct OddSize {
    std::int64_t size = 0;
    std::string_view of = {};
};

OddSize odd_size(const OperatorEntry& op, const std::set<std::int64_t>& rows) {
    const std::optional<Product> product = product_of(op);
    if (!product || !is_half(op.types)) {
        return {};
    }
    OddSize found;
    for (const std::int64_t size : {product->inner, product->columns}) {
        const bool odd = size > 1 && size % 8 != 0;  // sizes of 1 broadcast
        if (odd && (found.size == 0 || found.of == "samples")) {
            found.size = size;
            found.of = op.name.ends_with("bmm") ? "sequence" : rows.contains(size) ? "samples" : "width";
        }
    }
    return found;
}

// Numbers of samples or tokens: the rows that a layer multiplies in the forward pass.
std::set<std::int64_t> rows_of_layers(const RankRecords& rank) {
    std::set<std::int64_t> rows = {rank.facts.train.batch_size.value_or(0)};
    for (const OperatorEntry& op : rank.profile->operators) {
        if (const auto product = product_of(op); product && op.name == "aten::addmm") {
            rows.insert(product->rows);
        }
    }
    return rows;
}

std::optional<Finding> odd_sizes(const RunView&, const RankRecords& rank, const RunSummary&) {
    const std::set<std::int64_t> rows = rows_of_layers(rank);
    double us = 0;
    const OperatorEntry* worst = nullptr;
    for (const OperatorEntry& op : rank.profile->operators) {
        if (op.device_us > 0 && odd_size(op, rows).size != 0) {
            us += op.device_us;
            worst = worst == nullptr || op.device_us > worst->device_us ? &op : worst;
        }
    }
    const double share = share_of_span(rank, us);
    if (worst == nullptr || share < kOperatorInfo) {
        return std::nullopt;
    }
    const auto [size, of] = odd_size(*worst, rows);
    return Finding{.severity = severity_from(share),
                   .evidence = {{"share", share}, {"us", us}, {"size", static_cast<double>(size)}},
                   .gain = {.low = 1, .expected = 1 / (1 - share * 0.2), .high = 1 / (1 - share * 0.5)},
                   .confidence = 0.6,
                   .variant = of,
                   .wanted = (size + 7) / 8 * 8,
                   .place = worst->shapes};
}

struct RangeCost {
    double count = 0;
    double host_us = 0;
    double device_us = 0;
};

// The share of the time that the host's operators cost. A GPU that is busy meanwhile loses nothing.
double lost_host_share(const RankRecords& rank, const RunSummary& run, double host_us) {
    const double share = share_of_span(rank, host_us);
    return on_gpu(rank) ? std::min(share, lost_to_launches(rank, run)) : share;
}

// The cost of the operators within ranges that begin so.
RangeCost cost_within(const RankRecords& rank, std::string_view range) {
    RangeCost cost;
    if (!rank.profile) {
        return cost;
    }
    for (const OperatorEntry& op : rank.profile->operators) {
        if (op.range.starts_with(range)) {
            cost.count += static_cast<double>(op.count);
            cost.host_us += op.self_us;
            cost.device_us += op.device_us;
        }
    }
    return cost;
}

std::optional<Finding> single_tensor_optimizer(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const RangeCost cost = cost_within(rank, "Optimizer.step#");
    constexpr double kManyOperators = 20;  // in a step
    if (rank.facts.train.optimizer_kernel != "single" ||
        (rank.profile && cost.count < kManyOperators * steps_of(rank))) {
        return std::nullopt;
    }
    const std::string_view kernel = faster_kernel(rank);
    if (kernel.empty()) {
        return std::nullopt;
    }
    // The host's time counts while the GPU is idle; the kernels' time while it is not.
    const double host = lost_share(rank, run, Phase::optimizer);
    const double share = host + (on_gpu(rank) ? share_of_span(rank, cost.device_us) : 0);
    if (share < kOperatorWarn) {
        return std::nullopt;
    }
    // Python between the operators goes away; of the operators' passes over memory one of about four remains.
    const double operators =
        on_gpu(rank) || !rank.profile ? share / 2 : std::min(share, share_of_span(rank, cost.host_us));
    const bool slow = kernel == "foreach" && !on_gpu(rank);  // its passes over memory stay
    const double least = slow ? 0 : rank.profile && !on_gpu(rank) ? share - operators : share / 4;
    const double most = slow ? 0.4 * share : share - operators / 4;
    Finding finding{.severity = Severity::warn};
    finding.variant = kernel;
    finding.evidence = {{"optimizer_share", share}};
    if (rank.profile) {
        finding.add("operators_per_step", cost.count / steps_of(rank));
    }
    finding.gain = gain_of_share(most, most > 0 ? least / most : 0);
    finding.confidence = 0.75;
    return finding;
}

std::optional<Finding> zeroed_grads(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const RangeCost cost = cost_within(rank, "Optimizer.zero_grad#");
    const double share = lost_host_share(rank, run, cost.host_us) + share_of_span(rank, cost.device_us);
    constexpr double kSilent = 0.001;
    if (cost.count == 0 || share < kSilent) {
        return std::nullopt;
    }
    Finding finding{.severity = severity_from(share, kOperatorInfo)};
    finding.evidence = {{"share", share}, {"operators_per_step", cost.count / steps_of(rank)}};
    // The first accumulation then writes instead of reading and adding: about as much again.
    const Gain once = gain_of_share(share, 0.8);
    finding.gain = {.low = once.low, .expected = once.high, .high = gain_of_share(2 * share, 0.8).high};
    finding.confidence = 0.85;
    return finding;
}

double total_us(const RankRecords& rank, std::string_view op) {
    double us = 0;
    for (const OperatorEntry& entry : rank.profile->operators) {
        us += entry.name == op ? (on_gpu(rank) ? entry.device_us : entry.self_us) : 0;
    }
    return us;
}

// The sequences of a kind, the most costly first, and their sum.
struct Sequences {
    const SequenceEntry* worst = nullptr;
    double count = 0;
    double us = 0;
};

Sequences sequences_of(const RankRecords& rank, std::string_view kind) {
    Sequences found;
    for (const SequenceEntry& sequence : rank.profile->sequences) {
        if (sequence.kind == kind) {
            found.count += static_cast<double>(sequence.count);
            found.us += sequence.us;
            found.worst = found.worst == nullptr || sequence.us > found.worst->us ? &sequence : found.worst;
        }
    }
    return found;
}

std::optional<Finding> conv_bias(const RunView&, const RankRecords& rank, const RunSummary&) {
    const Sequences found = sequences_of(rank, "conv bias before batch norm");
    if (found.worst == nullptr) {
        return std::nullopt;
    }
    const double share = share_of_span(rank, found.us);
    // Adding a bias and summing its gradient each read the tensor once; batch norm reads it three times.
    const double norm = total_us(rank, "aten::native_batch_norm") + total_us(rank, "aten::cudnn_batch_norm");
    const double most = std::max(share, share_of_span(rank, norm / 3));
    return Finding{
        .severity = severity_from(share, kOperatorInfo),
        .evidence = {{"convolutions_per_step", found.count / steps_of(rank)}, {"bias_share", share}},
        .gain = {.low = 1, .expected = gain_of_share((share + most) / 2).low, .high = gain_of_share(most).high},
        .confidence = 0.9,
        .place = found.worst->place};
}

std::optional<Finding> host_fill(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const Sequences found = sequences_of(rank, "filled on the host, then copied");
    // The GPU waits for the filling, or for the copy that follows.
    const double idle = lost_to_launches(rank, run) + lost_share(rank, run, Phase::copy);
    const double share = std::min(share_of_span(rank, found.us), on_gpu(rank) ? idle : 1);
    constexpr double kSilent = 0.005;
    constexpr double kMuch = 0.02;
    if (found.worst == nullptr || share < kSilent) {
        return std::nullopt;
    }
    return Finding{.severity = severity_from(share, kMuch),
                   .evidence = {{"share", share}, {"tensors_per_step", found.count / steps_of(rank)}},
                   .gain = gain_of_share(share, 0.3),
                   .confidence = 0.8,
                   .place = found.worst->place};
}

std::optional<Finding> indexing_loop(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const Sequences found = sequences_of(rank, "indexing loop");
    const double share = share_of_span(rank, found.us);
    if (found.worst == nullptr || share < kOperatorInfo) {
        return std::nullopt;
    }
    // On a GPU the host's loop costs at most the GPU's idle time meanwhile.
    const double lost = lost_host_share(rank, run, found.us);
    return Finding{.severity = severity_from(lost),
                   .evidence = {{"share", share}, {"iterations_per_step", found.count / steps_of(rank)}},
                   .gain = gain_of_share(lost, 0.6),
                   .confidence = 0.75,
                   .place = found.worst->place};
}

std::optional<Finding> data_parallel(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const auto is_part = [](const OperatorEntry& op) {
        return op.range.starts_with("DataParallel.forward") || op.name == "DataParallel.forward";
    };
    if (rank.facts.device.count < 2 || !std::ranges::any_of(rank.profile->operators, is_part)) {
        return std::nullopt;
    }
    double us = 0;
    for (const OperatorEntry& op : rank.profile->operators) {
        const bool moves = op.name == "Broadcast" || op.name == "Scatter" || op.name == "Gather" ||
                           op.name == "ReduceAddCoalesced" || op.name == "BroadcastBackward";
        us += moves ? std::max(op.self_us, op.device_us) : 0;
    }
    const double share = share_of_span(rank, us);
    return Finding{.severity = Severity::warn,
                   .evidence = {{"devices", static_cast<double>(rank.facts.device.count)}, {"copy_share", share}},
                   .gain = gain_of_share(std::max(share, lost_to_launches(rank, run)), 0.3),
                   .confidence = 0.85};
}

}  // namespace

std::span<const Rule> operator_rules() {
    static constexpr std::array kRules = {
        Rule{"odd-sizes", "fp16 or bf16 matrix products with a size that is not a multiple of 8 take 1 % of the time",
             "pad the size", odd_sizes, Needs::profile},
        Rule{"single-tensor-optimizer", "the optimizer updates one tensor after the other and takes 5 % of the time",
             "`fused=True`, or `foreach=True`", single_tensor_optimizer},
        Rule{"zeroed-grads", "`zero_grad` fills gradients with zeros for 0.1 % of the time (a warning from 1 %)",
             "`set_to_none=True`", zeroed_grads, Needs::profile},
        Rule{"conv-bias-before-norm", "a convolution with a bias feeds a batch norm (a warning from 1 % of the time)",
             "`bias=False`", conv_bias, Needs::profile},
        Rule{"filled-on-host",
             "the GPU waits for tensors that are filled on the host, then copied: 0.5 % of the time (a warning from 2 "
             "%)",
             "create them on the device", host_fill, Needs::profile},
        Rule{"indexing-loop", "ten or more `aten::select` in a row take 1 % of the time (a warning from 5 %)",
             "one operation on the whole tensor", indexing_loop, Needs::profile},
        Rule{"data-parallel", "DataParallel on more than one GPU", "DistributedDataParallel", data_parallel,
             Needs::profile},
    };
    return kRules;
}

}  // namespace stoker
