// Arbitrary text as a card of the Hub, and as the features in a schema's metadata.
#include <string_view>

#include "fuzz/formats/sources.h"
#include "stoker/formats/arrow/hub_features.h"
#include "stoker/formats/arrow/hub_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    succeeds([&] { read_hub_features(std::string(text)); });
    const HubListing listing{.names = {"README.md", "data/train-0.parquet", "state.json", "a.arrow", "test/b.parquet"},
                             .read_text = [&](const std::string&) { return std::string(text); }};
    for (const Split split : {Split::train, Split::test}) {
        succeeds([&] {
            for (const std::string& name : hub_split_files(listing, split)) {
                require(is_parquet_name(name) || is_arrow_name(name));
            }
        });
    }
    return 0;
}
