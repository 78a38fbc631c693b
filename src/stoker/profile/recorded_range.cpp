#include "stoker/profile/recorded_range.h"

#include <ATen/record_function.h>

#include <string>

namespace stoker {

RecordedRange::RecordedRange(std::string_view name, Scope scope)
    : range_(std::make_unique<at::RecordFunction>(scope == Scope::user ? at::RecordScope::USER_SCOPE
                                                                       : at::RecordScope::FUNCTION)) {
    if (range_->isActive()) {
        range_->before(name);
    }
}

RecordedRange::~RecordedRange() = default;

}  // namespace stoker
