// A sequence is guessed from the first key, the last key and the number of entries; a few keys between them are looked
// up to confirm it.
#include "stoker/formats/lmdb/lmdb_keys.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <utility>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/user_cache.h"

namespace stoker {
namespace {

constexpr const char* kCacheKind = "lmdb_index";
constexpr std::size_t kCachedFrom = 10'000;  // a shorter list is made faster than it is loaded
constexpr std::string_view kImagePrefix = "image-";
constexpr std::string_view kLabelPrefix = "label-";
constexpr std::string_view kAfterImages = "image.";  // the first text after all that begin with "image-"
constexpr std::string_view kCounts[] = {"num-samples", "length"};

bool is_sample(const LmdbTree& tree, std::string_view key) {
    if (std::ranges::find(kCounts, key) == std::end(kCounts)) {
        return !key.starts_with("__");
    }
    const auto value = tree.find(key);
    return value && !parse_number<std::int64_t>(as_text(*value));
}

std::string absolute(const std::string& path) {
    std::error_code unknown;
    const auto whole = std::filesystem::absolute(path, unknown);
    return unknown ? path : whole.string();
}

}  // namespace

// The keys of the first and the last sample.
struct LmdbKeys::Range {
    std::string first;
    std::string last;
};

std::optional<LmdbKeySequence> find_key_sequence(std::string_view first, std::string_view last, std::uint64_t count) {
    constexpr std::size_t kMaxDigits = 18;
    constexpr std::string_view kDigits = "0123456789";
    if (first.empty() || first.size() != last.size() || first.size() > LmdbKeys::kLongest) {
        return std::nullopt;
    }
    const std::size_t nondigit = std::min(first.find_last_not_of(kDigits), last.find_last_not_of(kDigits));
    std::size_t prefix = nondigit == std::string_view::npos ? 0 : nondigit + 1;
    prefix = std::max(prefix, first.size() - std::min(first.size(), kMaxDigits));
    const auto from = parse_number<std::int64_t>(first.substr(prefix));
    const auto to = parse_number<std::int64_t>(last.substr(prefix));
    if (first.substr(0, prefix) != last.substr(0, prefix) || !from || !to || *from < 0 || *to < *from ||
        static_cast<std::uint64_t>(*to - *from) + 1 != count) {
        return std::nullopt;
    }
    return LmdbKeySequence{.prefix = std::string(first.substr(0, prefix)),
                           .digits = first.size() - prefix,
                           .first = static_cast<std::uint64_t>(*from)};
}

LmdbKeys::LmdbKeys(const LmdbSnapshot& snapshot) {
    const LmdbTree& tree = snapshot.tree();
    const auto images = LmdbTree::Cursor(tree).at_or_after(kImagePrefix);
    if (images && images->key.starts_with(kImagePrefix) && tree.find(kCounts[0])) {
        prefix_ = kImagePrefix;
    }
    const std::optional<Range> range = find_range(tree);
    if (!range) {
        throw DataError(
            {.path = snapshot.path()},
            {.where = "lmdb", .expected = "samples", .got = fmt::format("none in {} entries", snapshot.entries())});
    }
    if (!find_sequence(tree, *range, snapshot.entries())) {
        list(snapshot, *range);
    }
}

std::optional<LmdbKeys::Range> LmdbKeys::find_range(const LmdbTree& tree) const {
    // Few keys are not samples, so those at the ends are skipped one by one.
    LmdbTree::Cursor cursor(tree);
    auto first = paired() ? cursor.at_or_after(prefix_) : cursor.first();
    while (first && !is_sample(tree, first->key)) {
        first = cursor.next();
    }
    if (!first) {
        return std::nullopt;
    }
    Range range{.first = std::string(first->key), .last = {}};
    auto last = paired() ? cursor.at_or_after(kAfterImages) : std::nullopt;
    last = last ? cursor.previous() : cursor.last();
    while (last && !is_sample(tree, last->key)) {
        last = cursor.previous();
    }
    range.last = last ? std::string(last->key) : range.first;
    return range;
}

bool LmdbKeys::find_sequence(const LmdbTree& tree, const Range& range, std::uint64_t entries) {
    std::uint64_t others = 0;
    LmdbTree::Cursor cursor(tree);
    for (auto entry = cursor.at_or_after("__"); entry && entry->key.starts_with("__"); entry = cursor.next()) {
        ++others;
    }
    for (const std::string_view name : kCounts) {
        others += tree.find(name) && !is_sample(tree, name) ? 1 : 0;
    }
    std::uint64_t count = entries - std::min(others, entries);
    if (paired()) {
        const auto label = cursor.at_or_after(kLabelPrefix);
        count = label && label->key.starts_with(kLabelPrefix) ? (count % 2 == 0 ? count / 2 : 0) : count;
    }
    sequence_ = find_key_sequence(range.first, range.last, count);
    if (!sequence_) {
        return false;
    }
    size_ = static_cast<std::int64_t>(count);
    constexpr std::int64_t kProbes = 16;
    Memory memory;
    for (std::int64_t i = 1; sequence_ && i <= kProbes; ++i) {
        const std::int64_t index = size_ * i / (kProbes + 1);
        if (!tree.find(at(index, memory))) {
            sequence_.reset();
        }
    }
    return sequence_.has_value();
}

void LmdbKeys::list(const LmdbSnapshot& snapshot, const Range& range) {
    const LmdbTree& tree = snapshot.tree();
    const std::string name = absolute(snapshot.path());
    const std::string stamp = snapshot.stamp();
    if (auto kept = read_user_cache(kCacheKind, name, stamp); kept && adopt(std::move(*kept), snapshot.entries())) {
        return;
    }
    std::vector<std::uint64_t> begins;
    std::string names;
    std::uint64_t walked = 0;
    LmdbTree::Cursor cursor(tree);
    for (auto entry = cursor.at_or_after(range.first); entry; entry = cursor.next()) {
        if (++walked > snapshot.entries() || names.size() > snapshot.bytes() || entry->key.size() > kLongest) {
            throw DataError({.path = snapshot.path(), .key = std::string(entry->key)},
                            {.where = "lmdb",
                             .expected = fmt::format("{} keys of at most {} bytes", snapshot.entries(), kLongest),
                             .got = "more or longer ones"});
        }
        if (!entry->key.starts_with(prefix_)) {
            break;
        }
        if (is_sample(tree, entry->key)) {
            begins.push_back(names.size());
            names += entry->key;
        }
    }
    const std::uint64_t count = begins.size();
    begins.push_back(names.size());
    Buffer content(sizeof count + begins.size() * sizeof begins[0] + names.size());
    std::byte* out = content.data();
    std::memcpy(out, &count, sizeof count);
    std::memcpy(out + sizeof count, begins.data(), begins.size() * sizeof begins[0]);
    std::memcpy(out + sizeof count + begins.size() * sizeof begins[0], names.data(), names.size());
    if (count >= kCachedFrom && snapshot.settled()) {
        write_user_cache(kCacheKind, name, stamp, content.bytes());
    }
    adopt(std::move(content), snapshot.entries());
}

// False if the list cannot belong to this database.
bool LmdbKeys::adopt(Buffer list, std::uint64_t entries) {
    std::uint64_t count = 0;
    if (list.size() < sizeof count) {
        return false;
    }
    std::memcpy(&count, list.data(), sizeof count);
    if (count > entries || list.size() < (count + 2) * sizeof count) {
        return false;
    }
    const auto* begins = reinterpret_cast<const std::uint64_t*>(list.data()) + 1;
    const auto names = as_text(list.bytes().subspan(static_cast<std::size_t>((count + 2) * sizeof count)));
    if (begins[count] != names.size() || !std::is_sorted(begins, begins + count + 1)) {
        return false;
    }
    size_ = static_cast<std::int64_t>(count);
    begins_ = {begins, static_cast<std::size_t>(count) + 1};
    names_ = names;
    list_ = std::move(list);
    return true;
}

std::string_view LmdbKeys::at(std::int64_t index, Memory& memory) const {
    const auto at = static_cast<std::size_t>(index);
    if (!sequence_) {
        return names_.substr(begins_[at], begins_[at + 1] - begins_[at]);
    }
    std::memcpy(memory.data(), sequence_->prefix.data(), sequence_->prefix.size());
    const std::size_t size = sequence_->prefix.size() + sequence_->digits;
    std::uint64_t number = sequence_->first + static_cast<std::uint64_t>(index);
    for (std::size_t digit = size; digit > sequence_->prefix.size(); number /= 10) {
        memory[--digit] = static_cast<char>('0' + number % 10);
    }
    return {memory.data(), size};
}

std::optional<std::int64_t> LmdbKeys::index_in_sequence(std::string_view key) const {
    Memory memory;
    if (key > at(size_ - 1, memory)) {
        return size_;
    }
    const auto number = key.starts_with(sequence_->prefix)
                            ? parse_number<std::int64_t>(key.substr(sequence_->prefix.size()))
                            : std::nullopt;
    const std::int64_t index = number ? *number - static_cast<std::int64_t>(sequence_->first) : -1;
    return index >= 0 && index < size_ && at(index, memory) == key ? std::optional(index) : std::nullopt;
}

std::string_view LmdbKeys::label_key(std::string_view image_key, Memory& memory) {
    image_key = image_key.substr(0, kLongest);
    std::memcpy(memory.data(), kLabelPrefix.data(), kLabelPrefix.size());
    image_key.remove_prefix(kImagePrefix.size());
    std::memcpy(memory.data() + kLabelPrefix.size(), image_key.data(), image_key.size());
    return {memory.data(), kLabelPrefix.size() + image_key.size()};
}

}  // namespace stoker
