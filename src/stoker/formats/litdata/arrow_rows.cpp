// Only columns without others within them are read, which have two or three buffers each.
#include "stoker/formats/litdata/arrow_rows.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/litdata/arrow_batch.h"
#include "stoker/formats/litdata/flat_buffer.h"

namespace stoker {
namespace {

constexpr std::string_view kMagic("LDARW01\0", 8);
constexpr std::string_view kFileMagic = "ARROW1";
constexpr std::uint64_t kTail = 4 + kMagic.size();            // the length and the magic number
constexpr std::uint64_t kFooterTail = 4 + kFileMagic.size();  // of the IPC file
constexpr std::uint64_t kMostBatch = std::uint64_t{1} << 32;  // bytes
constexpr std::int64_t kBatchRows = 256;                      // of all batches but the last

// Members of Arrow's tables, by their place in its schema files.
enum Footer : std::uint8_t { kFooterSchema = 1, kFooterBatches = 3 };
enum Schema : std::uint8_t { kSchemaFields = 1 };
enum FieldMember : std::uint8_t { kFieldName = 0, kFieldType = 2, kFieldDetails = 3, kFieldDictionary = 4 };

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "arrow", .expected = std::move(expected), .got = std::move(got)});
}

Buffer read_bytes(const ByteFile& file, std::uint64_t offset, std::uint64_t size) {
    if (offset > file.size() || size > file.size() - offset) {
        bad(fmt::format("{} bytes at {}", size, offset), fmt::format("a file of {} bytes", file.size()));
    }
    require_memory(size, "");
    Buffer bytes(static_cast<std::size_t>(size));
    file.read(offset, bytes.bytes());
    return bytes;
}

std::uint32_t word_before(const ByteFile& file, std::uint64_t end) {
    std::uint32_t word = 0;
    file.read(end - sizeof word, std::as_writable_bytes(std::span(&word, 1)));
    return word;
}

ArrowColumn parse_column(const FlatTable& field, const std::string& where) {
    ArrowColumn column{.name = std::string(field.text(kFieldName))};
    const auto type = field.number<std::uint8_t>(kFieldType, 0);
    const std::optional<FlatTable> details = field.table(kFieldDetails);
    const bool wide =
        type == 2   ? details && details->number<std::int32_t>(0, 0) == 64 && details->number<std::uint8_t>(1, 0) == 1
        : type == 3 ? details && details->number<std::int16_t>(0, 0) == 2
                    : type >= 4 && type <= 6;
    if (!wide || field.table(kFieldDictionary)) {
        throw Unsupported({.where = where,
                           .expected = "rows of int64, float64, booleans, text and bytes",
                           .got = fmt::format("another type of {:?}", column.name),
                           .hint = "write tuples, or arrays instead of lists"});
    }
    column.type = static_cast<ArrowType>(type);
    return column;
}

// Appends numbers and bytes to a buffer of a known size.
class Output {
  public:
    explicit Output(std::span<std::byte> out) : out_(out) {}
    void word(std::uint64_t value) {
        const auto narrow = static_cast<std::uint32_t>(value);
        bytes(std::as_bytes(std::span(&narrow, 1)));
    }
    void bytes(std::span<const std::byte> more) {
        std::ranges::copy(more, out_.begin());
        out_ = out_.subspan(more.size());
    }

  private:
    std::span<std::byte> out_;
};

// A table and samples: each has the sizes of its columns and the columns.
Buffer rows_of(const std::vector<ArrowValues>& columns, std::size_t rows) {
    constexpr std::uint64_t kWord = sizeof(std::uint32_t);
    std::vector<std::uint64_t> ends;
    std::uint64_t end = (rows + 2) * kWord;
    for (std::size_t row = 0; row < rows; ++row) {
        for (const ArrowValues& column : columns) {
            end += kWord + column.at(row).size();
        }
        ends.push_back(end);
    }
    if (end >= kMostBatch) {
        bad("a record batch below 4 GiB", fmt::format("{} bytes", end));
    }
    require_memory(end, "");
    Buffer all(static_cast<std::size_t>(end));
    Output out(all.bytes());
    out.word(rows);
    out.word((rows + 2) * kWord);
    std::ranges::for_each(ends, [&](std::uint64_t place) { out.word(place); });
    for (std::size_t row = 0; row < rows; ++row) {
        for (const ArrowValues& column : columns) {
            out.word(column.at(row).size());
        }
        for (const ArrowValues& column : columns) {
            out.bytes(column.at(row));
        }
    }
    return all;
}

// The column and the first buffer of each leaf.
struct Source {
    ArrowColumn column;
    std::size_t buffer = 0;
};

std::vector<Source> find_sources(const FlatTable& footer, const ColumnLayout& layout, const std::string& where) {
    const std::optional<FlatTable> schema = footer.table(kFooterSchema);
    if (!schema) {
        bad("a schema", "none");
    }
    const FlatVector fields = schema->vector(kSchemaFields, sizeof(std::uint32_t));
    std::vector<Source> all;
    std::size_t buffer = 0;
    for (std::size_t i = 0; i < fields.count; ++i) {
        all.push_back({.column = parse_column(schema->table_in(fields, i), where), .buffer = buffer});
        buffer += all.back().column.buffers();
    }
    std::vector<Source> sources;
    for (const SampleColumn& leaf : layout.columns) {
        const auto found = std::ranges::find(all, leaf.name,
                                             [](const Source& source) { return std::string_view(source.column.name); });
        if (found == all.end()) {
            bad(fmt::format("a column {:?}", leaf.name), "none");
        }
        sources.push_back(*found);
    }
    return sources;
}

Buffer unpack_batch(const ByteFile& file, const ArrowBlock& block, std::uint64_t begin,
                    const std::vector<Source>& sources, std::uint64_t rows) {
    const Buffer bytes = read_bytes(file, begin, static_cast<std::uint64_t>(block.metadata + block.body));
    const ArrowBatch batch(bytes.bytes(), block);
    if (static_cast<std::uint64_t>(batch.rows()) != rows) {
        bad(fmt::format("{} rows", rows), fmt::format("{}", batch.rows()));
    }
    std::vector<ArrowValues> columns;
    columns.reserve(sources.size());
    for (const Source& source : sources) {
        columns.emplace_back(batch, source.column, source.buffer);
    }
    return rows_of(columns, static_cast<std::size_t>(rows));
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
    const std::uint64_t length = word_before(file, file.size() - kMagic.size());
    if (length > end || length < 2 * kFooterTail) {
        bad("an Arrow table in the chunk", fmt::format("{} bytes of {}", length, end));
    }
    const std::uint64_t begin = end - length;
    if (as_text(read_bytes(file, begin, kFileMagic.size()).bytes()) != kFileMagic) {
        throw Unsupported({.where = shown_name(file.name()),
                           .expected = "rows in an Arrow file",
                           .got = "an Arrow stream, which earlier releases of LitData wrote"});
    }
    const std::uint64_t size = word_before(file, end - kFileMagic.size());
    if (size > length - kFooterTail) {
        bad("the footer of an Arrow file", fmt::format("{} bytes of {}", size, length));
    }
    const Buffer footer_bytes = read_bytes(file, end - kFooterTail - size, size);
    const FlatTable footer = FlatTable::root(footer_bytes.bytes());
    const std::vector<Source> sources = find_sources(footer, layout, shown_name(file.name()));
    const FlatVector blocks = footer.vector(kFooterBatches, sizeof(ArrowBlock));
    ShardTable table;
    std::vector<ArrowBlock> places;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < blocks.count; ++i) {
        const auto block = footer.read<ArrowBlock>(blocks.begin + i * sizeof(ArrowBlock));
        const auto whole = static_cast<std::uint64_t>(block.metadata) + static_cast<std::uint64_t>(block.body);
        if (block.offset < 0 || block.metadata < 16 || block.body < 0 || whole > length ||
            static_cast<std::uint64_t>(block.offset) > length - whole || first >= chunk.samples) {
            bad(fmt::format("record batches of {} rows within {} bytes", chunk.samples, length),
                fmt::format("{} bytes at {}", block.body, block.offset));
        }
        table.parts.push_back(
            {.first = first, .range = {.offset = begin + static_cast<std::uint64_t>(block.offset), .size = whole}});
        places.push_back(block);
        first = std::min(first + kBatchRows, chunk.samples);
    }
    if (first != chunk.samples) {
        bad(fmt::format("record batches of {} rows", chunk.samples), fmt::format("{}", blocks.count));
    }
    table.unpack = [places = std::move(places), sources, samples = chunk.samples](const ByteFile& from, std::size_t at,
                                                                                  const ShardPart& part) {
        const std::int64_t rows = std::min(kBatchRows, samples - part.first);
        return unpack_batch(from, places[at], part.range.offset, sources, static_cast<std::uint64_t>(rows));
    };
    return table;
}

}  // namespace stoker
