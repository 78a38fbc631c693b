// JPEGs that cannot be recoded are left out: there are none among ours.
#include "seeds.h"
#include "stoker/codecs/dct.h"

namespace stoker::fuzz {

std::vector<std::vector<std::byte>> dct_records(const std::vector<std::vector<std::byte>>& jpegs) {
    std::vector<std::vector<std::byte>> records;
    for (const auto& jpeg : jpegs) {
        for (const bool zstd : {false, true}) {
            DctRecord record = encode_dct(jpeg, {.zstd = zstd});
            if (record.reason.empty()) {
                records.push_back(std::move(record.bytes));
            }
        }
    }
    return records;
}

}  // namespace stoker::fuzz
