#include "stoker/pipeline/aspect_buckets.h"

#include <algorithm>
#include <numeric>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/parallel_for.h"
#include "stoker/formats/lengths.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker {
namespace {

constexpr std::int64_t kPiece = 64;

void require_size(const Dataset& dataset, const Transform& transform) {
    Sample sample;
    TransformScratch scratch;
    try {
        read_sample(dataset, 0, sample, {});
        transform.input_size(sample, scratch);
    } catch (...) {
        rethrow_located(dataset, 0);
    }
}

}  // namespace

std::vector<std::int64_t> aspect_buckets(const Dataset& dataset, const Transform& transform, const AspectCropOp& op) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(dataset.size()), kBadLength);
    parallel_for(cpu_cores().usable, dataset.size(), kPiece, [&](std::int64_t begin, std::int64_t end) {
        std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
        std::iota(indices.begin(), indices.end(), begin);
        dataset.prefetch(indices);
        with_checked_maps([&] {
            Sample sample;
            TransformScratch scratch;
            for (const std::int64_t i : indices) {
                try {
                    read_sample(dataset, i, sample, {});
                    const std::size_t at = nearest_aspect(op.sizes, transform.input_size(sample, scratch));
                    numbers[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(at);
                } catch (const DataError&) {  // reported when a batch has the sample
                } catch (const Unsupported&) {
                }
            }
        });
    });
    std::vector<std::int64_t> counts(op.sizes.size(), 0);
    for (const std::int64_t number : numbers) {
        if (number != kBadLength) {
            ++counts[static_cast<std::size_t>(number)];
        }
    }
    const auto most = std::ranges::max_element(counts);
    if (*most == 0) {
        require_size(dataset, transform);
    }
    std::ranges::replace(numbers, kBadLength, most - counts.begin());
    return numbers;
}

}  // namespace stoker
