// The kinds of step behind the interface, for tests that change how one runs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "stoker/train/step/graph_step.h"

namespace stoker::testing {

inline EagerStep& eager(Step& step) {
    return dynamic_cast<EagerStep&>(step);
}

// Captures an eager step of one process in `graphs`, as make_step does on a GPU.
inline void capture_with(std::unique_ptr<Step>& step, std::unique_ptr<DeviceGraphs> graphs) {
    auto* retrying = dynamic_cast<RetryingStep*>(step.get());
    ASSERT_NE(retrying, nullptr);
    step = std::make_unique<GraphStep>(std::move(*retrying), std::move(graphs));
}

}  // namespace stoker::testing
