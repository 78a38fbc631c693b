#include "stoker/diagnose/torch_trace/trace_events.h"

#include <algorithm>
#include <initializer_list>

namespace stoker {
namespace {

bool contains_any(std::string_view name, std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

}  // namespace

std::uint32_t TextTable::number(std::string_view text) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) {
        return found->second;
    }
    if (texts_.size() >= kMost || bytes_ + text.size() > kMostBytes) {
        if (!others_) {
            others_ = add("(further names)");
        }
        return *others_;
    }
    return add(text);
}

std::uint32_t TextTable::add(std::string_view text) {
    const auto next = static_cast<std::uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), next);
    bytes_ += text.size();
    return next;
}

std::optional<std::uint32_t> TextTable::find(std::string_view text) const {
    const auto found = numbers_.find(text);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

void EventList::push_back(const TraceEvent& event) {
    if (size_ == blocks_.size() * kBlock) {
        blocks_.push_back(std::make_unique<TraceEvent[]>(kBlock));
    }
    blocks_[size_ / kBlock][size_ % kBlock] = event;
    ++size_;
}

bool is_copy_to_device(std::string_view name) {
    return contains_any(name, {"HtoD", "H2D", "M2D"});
}

bool is_copy_to_host(std::string_view name) {
    return contains_any(name, {"DtoH", "D2H", "D2M"});
}

}  // namespace stoker
