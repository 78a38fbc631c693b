#include "stoker/train/task/target_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <span>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// The allowed values of the target: 0 to last, or `also`.
struct Allowed {
    std::uint64_t last = 0;
    std::uint64_t also = 0;
};

// The place of the first value that is not allowed; the number of values if there is none.
template <typename Value>
std::int64_t first_wrong(std::span<Value> values, const Allowed& allowed) {
    const auto wrong = [allowed](Value value) {
        const auto wide = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
        return wide > allowed.last && wide != allowed.also;
    };
    bool any = false;
    for (const Value value : values) {  // without a branch, so that it is vectorised
        any |= wrong(value);
    }
    return any ? std::ranges::find_if(values, wrong) - values.begin() : std::ssize(values);
}

struct WrongValue {
    std::int64_t place = 0;
    std::int64_t value = 0;
};

std::optional<WrongValue> find_wrong(const TensorView& view, const Allowed& allowed) {
    const auto look = [&](auto values) -> std::optional<WrongValue> {
        const std::int64_t place = first_wrong(values, allowed);
        return place == std::ssize(values)
                   ? std::nullopt
                   : std::optional(
                         WrongValue{place, static_cast<std::int64_t>(values[static_cast<std::size_t>(place)])});
    };
    switch (view.dtype) {
        case DType::uint8:
            return look(view.as<std::uint8_t>());
        case DType::uint16:
            return look(view.as<std::uint16_t>());
        case DType::int16:
            return look(view.as<std::int16_t>());
        case DType::int32:
            return look(view.as<std::int32_t>());
        case DType::int64:
            return look(view.as<std::int64_t>());
        default:
            return std::nullopt;
    }
}

// Tokens are also inputs, and a model's table lacks rows for negative ones.
Allowed allowed_of(const Task& task) {
    if (task.kind == TaskKind::multilabel) {
        return {.last = 1, .also = 1};
    }
    const auto last = static_cast<std::uint64_t>(task.outputs - 1);
    const bool may_be_ignored = task.loss.ignore_index >= 0;
    return {.last = last, .also = may_be_ignored ? static_cast<std::uint64_t>(task.loss.ignore_index) : last};
}

ErrorInfo complaint_of(const Task& task, const Allowed& allowed, std::int64_t value) {
    const std::string where = "field " + task.fields.target;
    if (task.kind == TaskKind::multilabel) {
        return {.where = where,
                .expected = "0 or 1 for each label",
                .got = fmt::to_string(value),
                .hint = "for one class of several set task = \"classification\""};
    }
    const std::string also =
        allowed.also > allowed.last ? fmt::format(", or {}", static_cast<std::int64_t>(allowed.also)) : "";
    return {.where = where,
            .expected = fmt::format("{} from 0 to {}, as the model has{}",
                                    task.kind == TaskKind::language ? "tokens" : "classes", allowed.last, also),
            .got = fmt::to_string(value),
            .hint = task.kind == TaskKind::segmentation
                        ? fmt::format("list the masks' values in data.fields.{0}.values (with data.fields.{0}.is = "
                                      "\"mask\"; `stoker inspect` counts them), set train.ignore_index to one that "
                                      "the loss leaves out, or give the model more outputs",
                                      task.fields.target)
                        : "set train.ignore_index to a class to leave out, or give the model more outputs"};
}

}  // namespace

void require_targets(const Task& task, const Batch& batch, const Dataset& dataset) {
    const bool labels = task.kind == TaskKind::multilabel;
    if (!labels && (!task.needs_own_model() || task.outputs == 0)) {
        return;
    }
    const TensorView view = batch.field(task.fields.target);
    const Allowed allowed = allowed_of(task);
    if (const auto wrong = find_wrong(view, allowed)) {
        const auto item = static_cast<std::size_t>(wrong->place / (view.elements() / batch.size()));
        const std::int64_t index = batch.field(kIndexField).as<std::int64_t>()[item];
        throw DataError({.path = dataset.path(), .key = key_or_index(dataset, index), .index = index},
                        complaint_of(task, allowed, wrong->value));
    }
}

}  // namespace stoker
