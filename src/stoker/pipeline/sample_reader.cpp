#include "stoker/pipeline/sample_reader.h"

#include <vector>

#include "stoker/base/error.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker {

bool SampleReader::read(std::int64_t index, Sample& sample) const {
    if (cache_ != nullptr && cache_->get(index, sample)) {
        return true;
    }
    read_sample(dataset_, index, sample);
    return false;
}

void SampleReader::prefetch(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> missing;
    for (const std::int64_t index : indices) {
        if (cache_ == nullptr || !cache_->holds(index)) {
            missing.push_back(index);
        }
    }
    if (missing.empty()) {
        return;
    }
    try {
        dataset_.prefetch(missing);
    } catch (const Error&) {  // a hint: what is wrong with a sample shows when it is read
    }
}

}  // namespace stoker
