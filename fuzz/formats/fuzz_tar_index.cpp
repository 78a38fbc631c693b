// Arbitrary bytes as a shard's cached index: refused, or every range in it lies within the shard.
#include <algorithm>

#include "fuzz/formats/sources.h"
#include "stoker/formats/webdataset/sample_grouper.h"
#include "stoker/formats/webdataset/tar_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    constexpr std::uint64_t kShard = 100'000;
    Buffer bytes(size);
    std::copy_n(reinterpret_cast<const std::byte*>(data), size, bytes.data());
    const auto index = TarIndex::parse(std::move(bytes), kShard);
    if (!index) {
        return 0;
    }
    std::size_t letters = index->extensions().size();
    for (std::int64_t i = 0; i < index->size(); ++i) {
        const TarIndexEntry& sample = (*index)[i];
        if (sample.image == static_cast<std::uint32_t>(TarImage::frames)) {
            for (const TarFieldPlace& frame : index->frames(sample)) {
                require(frame.offset <= kShard && frame.size <= kShard - frame.offset);
            }
        } else {
            require(sample.offset <= kShard && sample.size <= kShard - sample.offset);
        }
        require(sample.label <= index->max_label() || sample.label < 0);
        letters += index->key(i).size();
        for (std::size_t at = 0; at < index->fields(); ++at) {
            const TarFieldPlace& place = index->field(i, at);
            require(place.offset <= kShard && place.size <= kShard - place.offset);
        }
    }
    require(letters <= size);
    return 0;
}
