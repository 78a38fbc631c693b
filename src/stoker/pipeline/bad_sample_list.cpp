#include "stoker/pipeline/bad_sample_list.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "stoker/base/pluralize.h"
#include "stoker/base/shell_quote.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

std::optional<BadSample> BadSampleList::find(std::int64_t index) {
    if (!any_.load(std::memory_order_acquire)) {
        return std::nullopt;
    }
    const std::lock_guard lock(mutex_);
    const auto found = found_.find(index);
    return found == found_.end() ? std::nullopt : std::optional(found->second);
}

BadSample BadSampleList::record(std::int64_t index, const DataError& error, bool remember) {
    BadSample bad{.index = index,
                  .key = key_or_index(dataset_, index),
                  .offset = error.place().offset,
                  .reason = fmt::format("expected {}, got {}", error.info().expected, error.info().got),
                  .other_size = dynamic_cast<const SizeMismatch*>(&error) != nullptr,
                  .hint = error.info().hint};
    if (budget_ > 0 && remember) {
        const std::lock_guard lock(mutex_);
        found_.emplace(index, bad);
        any_.store(true, std::memory_order_release);
    }
    return bad;
}

BadSample BadSampleList::add(std::int64_t index, const DataError& error, bool remember) {
    BadSample bad = record(index, error, remember);
    if (budget_ == 0) {
        ErrorInfo info = error.info();
        if (info.hint.empty()) {
            info.hint = "`stoker inspect --verify` lists all bad samples; data.bad_samples = 10 replaces up to ten";
        }
        throw TooManyBadSamples(error.place(), info, {std::move(bad)});
    }
    return bad;
}

void BadSampleList::add_first(std::int64_t index, const DataError& error, bool remember, std::int64_t tries) {
    if (budget_ == 0) {
        throw;
    }
    first_.push_back(record(index, error, remember));
    const bool last = index + 1 == dataset_.size();
    if (last || std::ssize(first_) > tries) {
        ErrorInfo info = error.info();
        info.hint += info.hint.empty() ? "" : "; ";
        info.hint +=
            last ? "no sample can be read" : fmt::format("none of the first {} samples can be read", first_.size());
        throw TooManyBadSamples(error.place(), info, std::move(first_));
    }
}

void BadSampleList::list_in(Batch& batch, BadSample bad) {
    const std::lock_guard lock(mutex_);
    batch.bad_samples().push_back(std::move(bad));
}

void BadSampleList::count(Batch& batch, bool replace) {
    std::vector<BadSample>& found = batch.bad_samples();
    std::ranges::stable_sort(found, {}, &BadSample::item);  // workers add them in any order
    counted_ += replaced_items(found);
    const bool replaced =
        !replace || std::ranges::all_of(found, [](const BadSample& bad) { return bad.replaced_by.has_value(); });
    if (counted_ <= budget_ && replaced) {
        return;
    }
    constexpr std::size_t kListed = 5;
    std::set<std::int64_t> indices;
    std::string list;
    for (const BadSample& bad : found) {
        if (indices.insert(bad.index).second && indices.size() <= kListed) {
            list += fmt::format("{}{}: {}", list.empty() ? "" : "; ", bad.key, bad.reason);
        }
    }
    const std::string& hint = found.front().hint;
    const bool one = dataset_.format() != "concat";  // else its path is a list of paths
    throw TooManyBadSamples(
        {.path = dataset_.path()},
        {.where = "data.bad_samples",
         .expected = fmt::format("at most {} in an epoch", pluralize(budget_, "bad sample")),
         .got = fmt::format("more: {}{}", list, indices.size() > kListed ? "; ..." : ""),
         .hint = fmt::format("{}{}`stoker inspect{} --verify` lists what is damaged; repair the data or raise "
                             "data.bad_samples",
                             hint, hint.empty() ? "" : "; ", one ? " " + quoted_for_shell(dataset_.path()) : "")},
        found);
}

}  // namespace stoker
