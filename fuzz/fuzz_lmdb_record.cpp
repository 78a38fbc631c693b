// Arbitrary bytes as the value of an LMDB record: a sample or one of our errors. A reader that has seen other records
// gives what a fresh one gives, wherever the bytes lie.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "stoker/base/error.h"
#include "stoker/formats/lmdb_record.h"

namespace {

using namespace stoker;

std::string read(LmdbRecord& record, std::span<const std::byte> value, Sample& sample) {
    try {
        record.read(value, sample);
    } catch (const DataError& error) {
        return error.what();
    } catch (const Unsupported& error) {
        return error.what();
    }
    return "";
}

void require(bool holds) {
    if (!holds) {
        __builtin_trap();
    }
}

void require_sound(const Sample& sample) {
    if (sample.encoded) {
        require(!sample.bytes.empty());
        return;
    }
    require(sample.height > 0 && sample.width > 0 && sample.channels > 0 && sample.channels <= 4);
    require(sample.bytes.size() == static_cast<std::size_t>(sample.height) * static_cast<std::size_t>(sample.width) *
                                       static_cast<std::size_t>(sample.channels));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static LmdbRecord used;
    const std::span<const std::byte> value = std::as_bytes(std::span(data, size));
    Sample sample;
    const std::string error = read(used, value, sample);
    LmdbRecord fresh;
    Sample in_place;
    in_place.storage.resize(size);
    if (size > 0) {
        std::memcpy(in_place.storage.data(), data, size);
    }
    require(read(fresh, in_place.storage.bytes(), in_place) == error);
    if (error.empty()) {
        require_sound(sample);
        require(std::ranges::equal(sample.bytes, in_place.bytes) && sample.label == in_place.label);
        require(sample.encoded == in_place.encoded && sample.height == in_place.height);
    }
    return 0;
}
