#include "stoker/train/task/target_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// The place of the first class that is neither the model's nor ignored; the number of values if there is none.
template <typename Class>
std::int64_t first_unknown(std::span<Class> values, const Task& task) {
    const auto unknown = [classes = static_cast<std::uint64_t>(task.outputs),
                          ignored = static_cast<std::uint64_t>(task.loss.ignore_index)](Class value) {
        const auto wide = static_cast<std::uint64_t>(value);
        return wide >= classes && wide != ignored;
    };
    bool any = false;
    for (const Class value : values) {  // without a branch, so that it is vectorised
        any |= unknown(value);
    }
    return any ? std::ranges::find_if(values, unknown) - values.begin() : std::ssize(values);
}

}  // namespace

void require_targets(const Task& task, const Batch& batch, const Dataset& dataset) {
    if (!task.needs_own_model() || task.outputs == 0) {
        return;
    }
    const TensorView view = batch.field(task.fields.target);
    const std::int64_t elements = view.elements();
    std::int64_t bad = elements;
    if (view.dtype == DType::uint8) {
        bad = first_unknown(view.as<std::uint8_t>(), task);
    } else if (view.dtype == DType::int64) {
        bad = first_unknown(view.as<std::int64_t>(), task);
    }
    if (bad == elements) {
        return;
    }
    const auto value = view.dtype == DType::uint8 ? view.as<std::uint8_t>()[static_cast<std::size_t>(bad)]
                                                  : view.as<std::int64_t>()[static_cast<std::size_t>(bad)];
    const auto item = static_cast<std::size_t>(bad / (elements / batch.size()));
    const std::int64_t index = batch.field(kIndexField).as<std::int64_t>()[item];
    throw DataError({.path = dataset.path(), .key = key_or_index(dataset, index), .index = index},
                    {.where = "field " + task.fields.target,
                     .expected = fmt::format("classes from 0 to {}, as the model has, or {}", task.outputs - 1,
                                             task.loss.ignore_index),
                     .got = fmt::to_string(value),
                     .hint = "set train.ignore_index to a class to leave out, or give the model more outputs"});
}

}  // namespace stoker
