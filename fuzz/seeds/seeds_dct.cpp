// dct records of the JPEG seeds; all of these can be recoded.
#include "fuzz/seeds/seeds.h"
#include "stoker/codecs/dct/dct.h"

namespace stoker::fuzz {

std::vector<Input> dct_records(const std::vector<Input>& jpegs) {
    std::vector<Input> records;
    for (const auto& jpeg : jpegs) {
        for (const DctKind kind : kDctKinds) {
            DctRecord record = encode_dct(jpeg, kind);
            if (record.reason.empty()) {
                records.push_back(std::move(record.bytes));
            }
        }
    }
    return records;
}

}  // namespace stoker::fuzz
