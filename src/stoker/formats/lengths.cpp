#include "stoker/formats/lengths.h"

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/parallel_for.h"

namespace stoker {

namespace {

std::int64_t read_length(const Dataset& dataset, std::int64_t index, std::size_t at, Sample& sample) {
    sample.field(at).set_raw({}, 0, 0, 0);
    try {
        dataset.read(index, sample);
    } catch (const DataError&) {  // reported when a batch has the sample
        return kBadLength;
    } catch (const Unsupported&) {
        return kBadLength;
    }
    return static_cast<std::int64_t>(sample.field(at).bytes.size() / dataset.fields()[at].item_bytes());
}

}  // namespace

std::vector<std::int64_t> lengths_of(const Dataset& dataset, std::size_t at) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(dataset.size()));
    constexpr std::int64_t kPiece = 64;
    parallel_for(cpu_cores().usable, dataset.size(), kPiece, [&](std::int64_t begin, std::int64_t end) {
        with_checked_maps([&] {
            Sample sample;
            for (std::int64_t i = begin; i < end; ++i) {
                const std::optional<std::int64_t> known = dataset.entries(i, at);
                lengths[static_cast<std::size_t>(i)] = known ? *known : read_length(dataset, i, at, sample);
            }
        });
    });
    return lengths;
}

}  // namespace stoker
