// An entry of a dictionary is copied once.
#include "stoker/formats/arrow/parquet_values.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "stoker/formats/arrow/arrow_calls.h"

namespace stoker {
namespace {

constexpr std::uint64_t kMostBegin = ~std::uint64_t{0} >> 1;
constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;

}  // namespace

TakenValues::TakenValues(std::span<const std::byte> map, std::int64_t rows, std::uint64_t bytes)
    : map_(map), most_(std::min(kMostBytes, static_cast<std::uint64_t>(most_arrow_memory()) / 2)) {
    values_.pieces.reserve(static_cast<std::size_t>(std::min<std::int64_t>(rows, 1 << 16)));
    values_.bytes.reserve(std::min(bytes, most_));
}

void TakenValues::take(const std::uint8_t* value, std::int64_t size) {
    if (values_.size() - values_.bytes.capacity() + values_.bytes.size() +
            static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0)) >
        most_) {
        too_large_ = true;
        return;
    }
    if (size <= 0) {
        values_.pieces.push_back({.begin = 0, .copied = 1, .size = size});
        return;
    }
    const std::span bytes(reinterpret_cast<const std::byte*>(value), static_cast<std::size_t>(size));
    const std::less_equal<> before;
    const bool mapped = !map_.empty() && before(map_.data(), bytes.data()) &&
                        before(bytes.data() + bytes.size(), map_.data() + map_.size());
    const std::uint64_t begin = mapped ? static_cast<std::uint64_t>(bytes.data() - map_.data()) : copy(bytes);
    values_.pieces.push_back({.begin = begin & kMostBegin, .copied = mapped ? 0U : 1U, .size = size});
}

// An address alone is not enough: the next page may be at that of the one before.
std::uint64_t TakenValues::copy(std::span<const std::byte> value) {
    std::vector<std::byte>& copied = values_.bytes;
    const auto [entry, is_new] = entries_.try_emplace(value.data(), copied.size());
    const std::uint64_t place = entry->second;
    const bool same = !is_new && value.size() <= copied.size() - place &&
                      std::memcmp(copied.data() + place, value.data(), value.size()) == 0;
    if (same) {
        return place;
    }
    entry->second = copied.size();
    copied.insert(copied.end(), value.begin(), value.end());
    return entry->second;
}

ParquetValues TakenValues::values() && {
    if (values_.bytes.capacity() - values_.bytes.size() > values_.bytes.size() / 8) {
        values_.bytes.shrink_to_fit();
    }
    return std::move(values_);
}

}  // namespace stoker
