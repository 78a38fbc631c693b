#include "engine/tune/data_part.h"

#include <utility>
#include <vector>

#include "stoker/formats/subset.h"

namespace stoker::cli {

std::shared_ptr<const Dataset> part_of(std::shared_ptr<const Dataset> dataset, std::int64_t samples) {
    if (samples <= 0 || samples >= dataset->size()) {
        return dataset;
    }
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < samples; ++i) {
        indices.push_back(i * dataset->size() / samples);
    }
    return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

}  // namespace stoker::cli
