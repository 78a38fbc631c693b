#include "stoker/formats/tokens/packed_documents.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/lengths.h"

namespace stoker {
namespace {

constexpr std::size_t kWindow = 1 << 16;  // pieces that are packed together

template <typename T>
void widen(std::span<const std::byte> bytes, std::size_t begin, std::span<std::int64_t> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        T value;
        std::memcpy(&value, bytes.data() + (begin + i) * sizeof value, sizeof value);
        out[i] = static_cast<std::int64_t>(value);
    }
}

void copy_tokens(DType dtype, std::span<const std::byte> bytes, std::size_t begin, std::span<std::int64_t> out) {
    switch (dtype) {
        case DType::uint8:
            return widen<std::uint8_t>(bytes, begin, out);
        case DType::uint16:
            return widen<std::uint16_t>(bytes, begin, out);
        case DType::int16:
            return widen<std::int16_t>(bytes, begin, out);
        case DType::int32:
            return widen<std::int32_t>(bytes, begin, out);
        case DType::int64:
            return widen<std::int64_t>(bytes, begin, out);
        default:
            throw InternalError({.where = "tokens", .expected = "integers", .got = std::string(dtype_name(dtype))});
    }
}

}  // namespace

std::vector<std::int64_t> best_fit_rows(std::span<const std::int64_t> lengths, std::int64_t capacity) {
    std::vector<std::size_t> longest_first(lengths.size());
    std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
    std::ranges::stable_sort(longest_first, std::greater(), [&](std::size_t i) { return lengths[i]; });
    std::map<std::int64_t, std::vector<std::int64_t>> with_room;  // rows by the tokens that they have room for
    std::vector<std::int64_t> rows(lengths.size());
    std::int64_t next = 0;
    for (const std::size_t item : longest_first) {
        const auto fullest = with_room.lower_bound(lengths[item]);
        std::int64_t room = capacity;
        if (fullest == with_room.end()) {
            rows[item] = next++;
        } else {
            room = fullest->first;
            rows[item] = fullest->second.back();
            fullest->second.pop_back();
            if (fullest->second.empty()) {
                with_room.erase(fullest);
            }
        }
        if (room > lengths[item]) {
            with_room[room - lengths[item]].push_back(rows[item]);
        }
    }
    return rows;
}

PackedDocuments::PackedDocuments(std::unique_ptr<Dataset> documents, std::size_t tokens, std::int64_t context)
    : documents_(std::move(documents)), at_(tokens), width_(context + 1) {
    const std::string& name = documents_->fields()[at_].name;
    fields_ = {{.name = name, .kind = FieldKind::tokens, .dtype = DType::int64, .shape = {width_}},
               {.name = kSegmentIds, .dtype = DType::int64, .shape = {width_}},
               {.name = kPositionIds, .dtype = DType::int64, .shape = {width_}}};
    const std::vector<Piece> all = cut();
    if (all.empty()) {
        throw DataError({.path = path()}, {.where = name, .expected = "documents of at least 2 tokens", .got = "none"});
    }
    begins_.push_back(0);
    for (std::size_t begin = 0; begin < all.size(); begin += kWindow) {
        const auto window = std::span(all).subspan(begin, std::min(kWindow, all.size() - begin));
        std::vector<std::int64_t> lengths;
        std::ranges::transform(window, std::back_inserter(lengths), &Piece::count);
        const std::vector<std::int64_t> rows = best_fit_rows(lengths, width_);
        std::vector<std::size_t> by_row(window.size());
        std::iota(by_row.begin(), by_row.end(), std::size_t{0});
        std::ranges::stable_sort(by_row, {}, [&](std::size_t i) { return rows[i]; });
        for (std::size_t i = 0; i < by_row.size(); ++i) {
            if (i > 0 && rows[by_row[i]] != rows[by_row[i - 1]]) {
                begins_.push_back(std::ssize(pieces_));
            }
            pieces_.push_back(window[by_row[i]]);
        }
        begins_.push_back(std::ssize(pieces_));
    }
}

std::vector<PackedDocuments::Piece> PackedDocuments::cut() const {
    const std::vector<std::int64_t> lengths = lengths_of(*documents_, at_);
    std::vector<Piece> pieces;
    for (std::size_t document = 0; document < lengths.size(); ++document) {
        if (lengths[document] == kBadLength) {  // alone in a row
            pieces.push_back({.document = static_cast<std::int64_t>(document), .begin = 0, .count = width_});
        }
        for (std::int64_t begin = 0; begin + 1 < lengths[document]; begin += width_ - 1) {
            pieces.push_back({.document = static_cast<std::int64_t>(document),
                              .begin = begin,
                              .count = std::min(width_, lengths[document] - begin)});
        }
    }
    return pieces;
}

std::span<const PackedDocuments::Piece> PackedDocuments::row(std::int64_t index) const {
    check_index(index);
    const std::int64_t* begin = begins_.data() + index;
    return std::span(pieces_).subspan(static_cast<std::size_t>(begin[0]),
                                      static_cast<std::size_t>(begin[1] - begin[0]));
}

void PackedDocuments::read(std::int64_t index, Sample& sample) const {
    const auto width = static_cast<std::size_t>(width_);
    sample.label = -1;
    std::array<std::span<std::int64_t>, 3> values;
    for (std::size_t i = 0; i < values.size(); ++i) {
        FieldValue& value = sample.field(i);
        value.storage.resize(width * sizeof(std::int64_t));
        values[i] = {reinterpret_cast<std::int64_t*>(value.storage.data()), width};
        std::ranges::fill(values[i], 0);
        value.set_elements(std::span<const std::int64_t>(values[i]));
    }
    const auto& [tokens, segments, positions] = values;
    const Field& field = documents_->fields()[at_];
    Sample document;
    std::size_t at = 0;
    std::int64_t segment = 0;
    for (const Piece& piece : row(index)) {
        FieldValue& value = document.field(at_);
        value.set_raw({}, 0, 0, 0);
        documents_->read(piece.document, document);
        const auto begin = static_cast<std::size_t>(piece.begin);
        const auto count = static_cast<std::size_t>(piece.count);
        const bool same_type = value.dtype.value_or(field.dtype) == field.dtype;
        if (!same_type || value.bytes.size() < (begin + count) * field.item_bytes()) {
            throw DataError(
                {.path = path(), .key = documents_->key(piece.document)},
                {.where = field.name,
                 .expected = fmt::format("{} tokens of {}, as when the data were opened", begin + count,
                                         dtype_name(field.dtype)),
                 .got = fmt::format("{} bytes{}", value.bytes.size(), same_type ? "" : " of another type")});
        }
        copy_tokens(field.dtype, value.bytes, begin, tokens.subspan(at, count));
        std::ranges::fill(segments.subspan(at, count), ++segment);
        std::iota(positions.begin() + static_cast<std::ptrdiff_t>(at),
                  positions.begin() + static_cast<std::ptrdiff_t>(at + count), std::int64_t{0});
        at += count;
    }
}

void PackedDocuments::prefetch(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> documents;
    for (const std::int64_t index : indices) {
        std::ranges::transform(row(index), std::back_inserter(documents), &Piece::document);
    }
    documents_->prefetch(documents);
}

std::string PackedDocuments::key(std::int64_t index) const {
    const Piece& first = row(index).front();
    const std::string key = documents_->key(first.document);
    return first.begin == 0 ? key : fmt::format("{}+{}", key, first.begin);
}

std::string PackedDocuments::advice() const {
    const std::int64_t used = std::accumulate(pieces_.begin(), pieces_.end(), std::int64_t{0},
                                              [](std::int64_t sum, const Piece& piece) { return sum + piece.count; });
    const double padding = 1 - static_cast<double>(used) / static_cast<double>(size() * width_);
    return fmt::format("{} documents in {} rows of {} tokens, {:.1f} % padding", documents_->size(), size(), width_,
                       100 * padding);
}

}  // namespace stoker
