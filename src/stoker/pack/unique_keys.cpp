// Takes 16 bytes per sample: sorts the keys' hashes and compares only keys with the same hash.
#include "stoker/pack/unique_keys.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"

namespace stoker {

void check_unique_keys(const Dataset& dataset, std::string_view format) {
    std::vector<std::pair<std::uint64_t, std::int64_t>> keys;
    keys.reserve(static_cast<std::size_t>(dataset.size()));
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        keys.emplace_back(hash_text(dataset.key(i)), i);
    }
    std::ranges::sort(keys);
    for (std::size_t i = 1; i < keys.size(); ++i) {
        if (keys[i].first != keys[i - 1].first) {
            continue;
        }
        std::string key = dataset.key(keys[i].second);
        if (key == dataset.key(keys[i - 1].second)) {
            throw DataError({.path = dataset.path(), .key = std::move(key), .index = keys[i].second},
                            {.where = std::string(format),
                             .expected = "a unique key for each sample",
                             .got = fmt::format("the key of sample {}", keys[i - 1].second),
                             .hint = "x.stk holds samples with equal keys"});
        }
    }
}

}  // namespace stoker
