#include "stoker/formats/litdata/litdata_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/arrow/arrow_calls.h"
#include "stoker/formats/arrow/arrow_loader.h"
#include "stoker/formats/arrow/arrow_values.h"

namespace stoker {
namespace {

constexpr std::string_view kMagic("LDARW01\0", 8);
constexpr std::uint64_t kTail = 4 + kMagic.size();            // the length and the magic number
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;  // of a chunk's samples

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "arrow", .expected = std::move(expected), .got = std::move(got)});
}

// The bytes of a value as LitData's own serializers write them; empty for null.
std::optional<std::span<const std::byte>> value_bytes(const ArrowCell& cell, Buffer& storage) {
    if (cell.is_null()) {
        return std::nullopt;
    }
    return cell.type->has_bytes() ? cell.bytes() : cell.numbers(storage).bytes;
}

// The rows of all batches.
class Rows {
  public:
    // Throws Unsupported for columns of other types than those that LitData writes.
    Rows(ArrowArrayStream& stream, const std::vector<std::string>& names, const std::string& path) {
        ArrowOwned<ArrowSchema> schema;
        if (stream.get_schema(&stream, schema.get()) != 0) {
            bad("a schema", "none");
        }
        type_ = read_arrow_type(*schema);
        for (const std::string& name : names) {
            const ArrowType* column = type_.child(name);
            if (column == nullptr) {
                bad(fmt::format("a column {:?}", name), arrow_type_name(type_));
            }
            const bool number = column->kind == ArrowKind::boolean ||
                                (column->kind == ArrowKind::number && column->element.item_size == 8);
            if (!number && !column->is_bytes()) {
                throw Unsupported({.where = path,
                                   .expected = "rows of int64, float64, booleans, text and bytes",
                                   .got = fmt::format("{} in {:?}", arrow_type_name(*column), name),
                                   .hint = "write tuples, or arrays instead of lists"});
            }
            columns_.push_back(static_cast<std::size_t>(column - type_.children.data()));
        }
        ArrowOwned<ArrowArray> batch;
        while (stream.get_next(&stream, batch.get()) == 0 && batch->release != nullptr) {
            count_ += batch->length;
            batches_.push_back(std::exchange(batch, {}));
        }
    }

    std::int64_t count() const { return count_; }

    // Calls take(row, bytes) for each value, row by row; the bytes are optional.
    template <typename Take>
    void each(Take take) const {
        Buffer storage;
        std::size_t number = 0;
        for (const auto& batch : batches_) {
            for (std::int64_t row = 0; row < batch->length; ++row, ++number) {
                const ArrowCell cell{.type = &type_, .array = &*batch, .row = row};
                for (const std::size_t column : columns_) {
                    take(number, value_bytes(cell.child(column), storage));
                }
            }
        }
    }

  private:
    ArrowType type_;
    std::vector<std::size_t> columns_;
    std::vector<ArrowOwned<ArrowArray>> batches_;
    std::int64_t count_ = 0;
};

constexpr std::uint64_t kWord = sizeof(std::uint32_t);

// The bytes of each sample; 0 for one with a null, which is a bad sample.
std::vector<std::uint64_t> sample_sizes(const Rows& rows, std::size_t columns) {
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(rows.count()), columns * kWord);
    rows.each([&](std::size_t row, std::optional<std::span<const std::byte>> value) {
        std::uint64_t& size = sizes[row];
        size = value && size > 0 ? size + value->size() : 0;
    });
    return sizes;
}

// A table and samples: each has the sizes of its columns and the columns.
Buffer samples_of(const Rows& rows, std::size_t columns) {
    const auto count = static_cast<std::size_t>(rows.count());
    require_memory(count * (sizeof(std::uint64_t) + kWord), "");
    const std::vector<std::uint64_t> sizes = sample_sizes(rows, columns);
    std::vector<std::uint32_t> head{static_cast<std::uint32_t>(count)};
    head.reserve(count + 2);
    std::uint64_t end = (count + 2) * kWord;
    for (std::size_t row = 0; row <= count; ++row) {
        if (end >= kMostBytes) {
            bad("samples below 4 GiB", fmt::format("{} bytes", end));
        }
        head.push_back(static_cast<std::uint32_t>(end));
        end += row < count ? sizes[row] : 0;
    }
    require_memory(end, "");
    Buffer all(static_cast<std::size_t>(end));
    std::ranges::copy(std::as_bytes(std::span(head)), all.data());
    std::size_t last = count;
    std::byte* size_to = nullptr;
    std::byte* value_to = nullptr;
    rows.each([&](std::size_t row, std::optional<std::span<const std::byte>> value) {
        if (!value || sizes[row] == 0) {
            return;
        }
        if (row != last) {
            last = row;
            size_to = all.data() + head[row + 1];
            value_to = size_to + columns * kWord;
        }
        const auto size = static_cast<std::uint32_t>(value->size());
        size_to = std::ranges::copy(std::as_bytes(std::span(&size, 1)), size_to).out;
        value_to = std::ranges::copy(*value, value_to).out;
    });
    return all;
}

Buffer unpack(std::span<const std::byte> part, const std::string& path, const std::vector<std::string>& names,
              std::int64_t samples) {
    require_memory(part.size(), "");
    Buffer bytes(part.size());  // aligned, as Arrow's readers want it
    std::memcpy(bytes.data(), part.data(), part.size());
    const ArrowBytes given{.user = nullptr,
                           .size = bytes.size(),
                           .map = reinterpret_cast<const std::uint8_t*>(bytes.data()),
                           .read = nullptr};
    ArrowOwned<ArrowArrayStream> stream;
    call_arrow(
        path, [&](ArrowText* error) { return arrow_api().open_ipc(&given, most_arrow_memory(), stream.get(), error); });
    const Rows rows(*stream.get(), names, path);
    if (rows.count() != samples) {
        bad(fmt::format("{} rows", samples), fmt::to_string(rows.count()));
    }
    return samples_of(rows, names.size());
}

}  // namespace

bool has_arrow_rows(const ByteFile& file) {
    std::array<char, kMagic.size()> end{};
    if (file.size() < kTail) {
        return false;
    }
    file.read(file.size() - end.size(), std::as_writable_bytes(std::span(end)));
    return std::string_view(end.data(), end.size()) == kMagic;
}

ShardTable read_arrow_rows(const ByteFile& file, const ShardInfo& chunk, const ColumnLayout& layout) {
    const std::uint64_t end = file.size() - kTail;
    std::uint32_t length = 0;
    file.read(end, std::as_writable_bytes(std::span(&length, 1)));
    if (length == 0 || length > end) {
        bad("an Arrow table in the chunk", fmt::format("{} bytes of {}", length, end));
    }
    std::vector<std::string> names;
    std::ranges::transform(layout.columns, std::back_inserter(names), &SampleColumn::name);
    ShardTable table;
    table.parts.push_back({.first = 0, .range = {.offset = end - length, .size = length}});
    table.unpack = [names, samples = chunk.samples](std::span<const std::byte> part, const std::string& path) {
        return unpack(part, path, names, samples);
    };
    return table;
}

}  // namespace stoker
