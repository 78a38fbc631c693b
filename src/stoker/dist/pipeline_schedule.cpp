#include "stoker/dist/pipeline_schedule.h"

#include <algorithm>

namespace stoker {

PipelineOrder pipeline_order(std::string_view name) {
    return name == "gpipe" ? PipelineOrder::gpipe : PipelineOrder::one_forward_one_backward;
}

std::int64_t most_in_flight(PipelineOrder order, int stage, int stages, std::int64_t micro_batches) {
    return order == PipelineOrder::gpipe ? micro_batches : std::min<std::int64_t>(stages - stage, micro_batches);
}

// Forward passes until as many are in flight as may be, then a backward pass before each further one.
std::vector<PipelineAction> pipeline_actions(PipelineOrder order, int stage, int stages, std::int64_t micro_batches) {
    const std::int64_t ahead = most_in_flight(order, stage, stages, micro_batches);
    std::vector<PipelineAction> actions;
    for (std::int64_t forward = 0; forward < micro_batches; ++forward) {
        if (forward >= ahead) {
            actions.push_back({.backward = true, .micro_batch = forward - ahead});
        }
        actions.push_back({.backward = false, .micro_batch = forward});
    }
    for (std::int64_t backward = micro_batches - ahead; backward < micro_batches; ++backward) {
        actions.push_back({.backward = true, .micro_batch = backward});
    }
    return actions;
}

double bubble_share(int stages, std::int64_t micro_batches) {
    return static_cast<double>(stages - 1) / static_cast<double>(micro_batches + stages - 1);
}

}  // namespace stoker
