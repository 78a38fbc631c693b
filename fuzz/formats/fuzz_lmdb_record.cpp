// Arbitrary bytes as the value of an LMDB record: a sample, DataError or Unsupported. A reader that has seen other
// records, or has learned its pattern from this one, gives the same result as a new reader, at any address. Its entries
// as further fields are refused, or have values that fit.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/promise.h"
#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/formats/lmdb/lmdb_record.h"

namespace {

using namespace stoker;
using stoker::fuzz::require;

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

void require_sound(const Sample& sample) {
    if (sample.encoded) {
        require(!sample.bytes.empty());
        return;
    }
    require(sample.height > 0 && sample.width > 0 && sample.channels > 0 && sample.channels <= 4);
    require(sample.bytes.size() == static_cast<std::size_t>(sample.height) * static_cast<std::size_t>(sample.width) *
                                       static_cast<std::size_t>(sample.channels));
}

void require_same(const Sample& one, const Sample& other) {
    require(std::ranges::equal(one.bytes, other.bytes) && one.label == other.label);
    require(one.encoded == other.encoded && one.height == other.height && one.width == other.width &&
            one.channels == other.channels);
}

// Records that differ from this one in a few bytes: mostly in pixels, some in the label or elsewhere.
void compare_neighbours(std::span<const std::byte> value) {
    LmdbRecord learned;
    Sample sample;
    read(learned, value, sample);
    std::vector<std::byte> other(value.begin(), value.end());
    std::uint64_t random = hash_bytes(value);
    for (int i = 0; i < 8 && !other.empty(); ++i) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        other[(random >> 20) % other.size()] = static_cast<std::byte>(random >> 12);
        LmdbRecord fresh;
        Sample expected;
        const std::string error = read(fresh, other, expected);
        require(read(learned, other, sample) == error);
        if (error.empty()) {
            require_same(sample, expected);
        }
    }
}

// The entries "a" and "1" as fields of each kind, read where they were described.
void read_entries(std::span<const std::byte> value) {
    for (const char* name : {"a", "1"}) {
        for (int kind = 0; kind < 7; ++kind) {
            const FieldRequest request{.name = name, .from = "", .kind = static_cast<FieldKind>(kind)};
            LmdbRecord record({.image = "", .label = "", .more = {request}});
            Sample sample;
            try {
                const Field field = record.describe(value, request, "fuzz");
                record.set_fields({field});
                record.read(value, sample);
                const FieldValue& found = sample.fields.at(0);
                const std::size_t item = field.item_bytes();
                require(has_pixels(field.kind) ? !found.bytes.empty()
                        : field.any_length()   ? (item == 0 ? found.bytes.empty() : found.bytes.size() % item == 0)
                                               : found.bytes.size() == item);
            } catch (const DataError&) {
            } catch (const Unsupported&) {
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static LmdbRecord used;
    const std::span<const std::byte> value = std::as_bytes(std::span(data, size));
    Sample sample;
    const std::string error = read(used, value, sample);
    read_entries(value);
    LmdbRecord fresh;
    Sample in_place;
    in_place.storage.resize(size);
    if (size > 0) {
        std::memcpy(in_place.storage.data(), data, size);
    }
    require(read(fresh, in_place.storage.bytes(), in_place) == error);
    if (error.empty()) {
        require_sound(sample);
        require_same(sample, in_place);
        compare_neighbours(value);
    }
    return 0;
}
