#include "stoker/formats/arrow/parquet_rows.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <unordered_map>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/parallel_for.h"
#include "stoker/formats/arrow/arrow_columns.h"
#include "stoker/formats/arrow/arrow_loader.h"
#include "stoker/formats/arrow/hub_features.h"

namespace stoker {
namespace {

// The least that decoded parts may take: two windows of a shuffle by parts (pipeline/train_sampler.cpp) and the parts
// at their ends.
constexpr std::uint64_t kCacheBytes = std::uint64_t{320} << 20;
// Larger runs are decoded one at a time, since Apache Arrow holds a dictionary's page three times meanwhile.
constexpr std::uint64_t kLargeRun = std::uint64_t{16} << 20;
// Larger data are read, since pages of a map that were used count as the process's memory.
constexpr std::uint64_t kMostMapped = std::uint64_t{1} << 30;
// Samples of that many bytes are one part of the shuffle.
constexpr std::int64_t kPartBytes = std::int64_t{8} << 20;

// Never lets an exception pass through the module.
bool read_file(void* user, std::uint64_t offset, std::uint8_t* out, std::uint64_t size) {
    const auto* const file = static_cast<const ParquetFileBytes*>(user);
    try {
        file->files->open(file->shard)->read(offset, std::as_writable_bytes(std::span(out, size)));
        return true;
    } catch (...) {
        arrow_read_error = std::current_exception();
        return false;
    }
}

// Ends the use of a part of a map: the system maps many pages around each that is touched.
void drop_pages(std::span<const std::byte> map, std::uint64_t offset, std::uint64_t size) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = (offset + page - 1) / page * page;
    const std::uint64_t end = std::min<std::uint64_t>(offset + size, map.size()) / page * page;
    if (begin < end) {
        ::madvise(const_cast<std::byte*>(map.data()) + begin, end - begin, MADV_DONTNEED);
    }
}

bool is_below(std::string_view leaf, const std::string& path) {
    return leaf == path || (leaf.starts_with(path) && leaf[path.size()] == '.');
}

}  // namespace

ParquetRows::ParquetRows(std::string path, std::vector<std::string> names, ShardFiles::Open open, std::size_t most_open)
    : api_(arrow_api()),
      path_(std::move(path)),
      files_(std::move(names), std::move(open), most_open),
      opened_(files_.size()),
      values_(kCacheBytes),
      columns_(kCacheBytes) {
    const auto count = static_cast<std::int64_t>(files_.size());
    const int threads = files_.remote() ? kRemoteThreads : cpu_cores().usable;
    parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t shard = begin; shard < end; ++shard) {
            open_file(static_cast<std::size_t>(shard));
        }
    });
    std::int64_t end = 0;
    for (std::size_t i = 0; i < opened_.size(); ++i) {
        File& file = opened_[i];
        bytes_ += static_cast<std::int64_t>(files_.open(i)->size());
        file.first_row = end;
        ParquetInfo info;
        api_.parquet_info(file.handle.get(), &info);
        for (std::int32_t group = 0; group < info.groups; ++group) {
            const std::int64_t rows = api_.group_rows(file.handle.get(), group);
            if (rows < 0 || __builtin_add_overflow(end, rows, &end)) {
                throw DataError({.path = files_.name(i)},
                                {.where = "row group", .expected = "a number of rows", .got = fmt::to_string(rows)});
            }
            if (rows > 0) {
                groups_.push_back({.file = i, .number = group, .rows = rows});
                ends_.push_back(end);
            }
        }
    }
    read_schema();
    require_memory(static_cast<std::uint64_t>(size()) * sizeof(std::int32_t), path_);  // of labels, by the reader
    map_or_read_ = MapOrRead(static_cast<std::uint64_t>(bytes_), std::min(memory_limit().total, 8 * kMostMapped));
}

void ParquetRows::open_file(std::size_t shard) {
    const ShardFiles::Handle handle = files_.open(shard);
    File& file = opened_[shard];
    file.source = std::make_unique<ParquetFileBytes>(ParquetFileBytes{.files = &files_, .shard = shard});
    if (handle.stays_open()) {
        file.map = handle->map();
    }
    const ArrowBytes bytes{.user = file.source.get(),
                           .size = handle->size(),
                           .map = reinterpret_cast<const std::uint8_t*>(file.map.data()),
                           .read = read_file};
    call_arrow(files_.name(shard), [&](ArrowText* error) {
        file.handle = {api_.open_parquet(&bytes, most_arrow_memory(), error), Close{&api_}};
        return file.handle != nullptr;
    });
}

void ParquetRows::read_schema_of(std::size_t shard, ArrowType& type, std::string& features) const {
    ArrowOwned<ArrowSchema> schema;
    call_arrow(files_.name(shard),
               [&](ArrowText* error) { return api_.parquet_schema(opened_[shard].handle.get(), schema.get(), error); });
    type = with_place({.path = files_.name(shard)}, [&] { return read_arrow_type(*schema); });
    features = arrow_metadata(*schema, "huggingface");
}

void ParquetRows::read_schema() {
    const ParquetHandle* first = opened_.front().handle.get();
    read_schema_of(0, type_, features_);
    ParquetInfo info;
    api_.parquet_info(first, &info);
    for (std::int32_t leaf = 0; leaf < info.leaves; ++leaf) {
        api_.parquet_leaf(first, leaf, &leaves_.emplace_back());
    }
    for (std::size_t i = 1; i < opened_.size(); ++i) {
        check_columns(i);
    }
}

// Columns are found by their numbers, so all files must have the same.
void ParquetRows::check_columns(std::size_t shard) const {
    const ParquetHandle* file = opened_[shard].handle.get();
    ParquetInfo info;
    api_.parquet_info(file, &info);
    const auto refuse = [&](std::string expected, std::string got) {
        throw DataError({.path = files_.name(shard)},
                        {.where = "columns",
                         .expected = fmt::format("{}, as in {}", expected, files_.name(0)),
                         .got = std::move(got)});
    };
    ArrowType type;
    std::string features;
    read_schema_of(shard, type, features);
    if (!same_columns(type, type_) || info.leaves != static_cast<std::int32_t>(leaves_.size())) {
        refuse(describe_columns(arrow_columns(type_, {})), describe_columns(arrow_columns(type, {})));
    }
    const auto classes = [&](const std::string& text) {
        return with_place({.path = files_.name(shard)}, [&] { return read_hub_features(text); });
    };
    if (features != features_ && classes(features) != classes(features_)) {
        refuse("the same features", "others");
    }
    for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
        ParquetLeaf other;
        api_.parquet_leaf(file, static_cast<std::int32_t>(leaf), &other);
        if (std::string_view(other.path) != leaves_[leaf].path || other.is_bytes != leaves_[leaf].is_bytes) {
            refuse(leaves_[leaf].path, other.path);
        }
    }
}

const ArrowSource* ParquetRows::add(const ArrowPath& path) {
    const std::string name = dotted(path);
    std::vector<std::int32_t> leaves;
    for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
        if (is_below(leaves_[leaf].path, name)) {
            leaves.push_back(static_cast<std::int32_t>(leaf));
        }
    }
    if (leaves.empty()) {
        throw DataError({.path = path_}, {.where = "columns", .expected = name, .got = arrow_type_name(type_)});
    }
    const std::lock_guard lock(mutex_);
    Source& source = sources_.emplace_back();
    const ParquetLeaf& first = leaves_[static_cast<std::size_t>(leaves.front())];
    source.path = path;
    source.number = sources_.size() - 1;
    source.paged = leaves.size() == 1 && first.is_bytes && name == first.path;
    source.leaves = std::move(leaves);
    source.groups.resize(source.paged ? groups_.size() : 0);
    if (source.paged) {
        add_part_sizes(source);
    }
    return &source;
}

// The size of `stored` bytes of a chunk's pages when they are decoded, as far as the file says, at most 256 MiB.
std::uint64_t ParquetRows::decoded_size(const ParquetChunk& all, std::uint64_t stored) {
    constexpr double kMost = std::uint64_t{256} << 20;
    const double growth =
        static_cast<double>(all.decoded_size) / static_cast<double>(std::max<std::uint64_t>(all.size, 1));
    return static_cast<std::uint64_t>(std::clamp(std::max(growth, 1.0) * static_cast<double>(stored), 0.0, kMost));
}

// Pages that refer to a dictionary are one part with it, and without their number a row group is one.
void ParquetRows::add_part_sizes(const Source& source) {
    part_sizes_.stored = static_cast<std::uint64_t>(bytes_);
    for (const Group& group : groups_) {
        const ParquetChunk all = chunk(group, source.leaves.front());
        const auto decoded = static_cast<std::uint64_t>(std::max<std::int64_t>(all.decoded_size, 0));
        const std::uint64_t dictionary = decoded_size(all, all.data > all.begin ? all.data - all.begin : 0);
        if (all.dictionary_pages < 0) {
            part_sizes_.add(decoded);
        } else if (all.dictionary_pages > 0 || opened_[group.file].map.empty() || all.compressed) {
            part_sizes_.add_pieces(decoded, kPartBytes + dictionary);
        }
    }
    values_.set_budget(part_budget(part_sizes_, kCacheBytes).bytes);
}

ParquetRows::Place ParquetRows::place(std::int64_t row) const {
    const auto group = static_cast<std::size_t>(std::ranges::upper_bound(ends_, row) - ends_.begin());
    return {.group = group, .row = row - (ends_[group] - groups_[group].rows)};
}

ParquetChunk ParquetRows::chunk(const Group& group, std::int32_t leaf) const {
    ParquetChunk chunk;
    call_arrow(file_name(group), [&](ArrowText* error) {
        return api_.parquet_chunk(opened_[group.file].handle.get(), group.number, leaf, &chunk, error);
    });
    return chunk;
}

// Pages that refer to the dictionary come first, and are one run with it.
std::vector<ParquetRows::Run> ParquetRows::find_runs(const Group& group, std::int32_t leaf) const {
    const ParquetChunk all = chunk(group, leaf);
    if (all.dictionary_pages < 0) {
        return {{.offset = all.begin, .size = all.size, .first_row = 0, .rows = group.rows, .dictionary = true}};
    }
    std::vector<ParquetPage> pages;
    call_arrow(file_name(group), [&](ArrowText* error) {
        return api_.parquet_pages(
            opened_[group.file].handle.get(), group.number, leaf,
            [](void* user, const ParquetPage* page) { static_cast<std::vector<ParquetPage>*>(user)->push_back(*page); },
            &pages, error);
    });
    std::vector<Run> runs;
    const auto with_dictionary = static_cast<std::size_t>(all.dictionary_pages);
    for (std::size_t i = 0; i < pages.size(); ++i) {
        const std::int64_t end = i + 1 < pages.size() ? pages[i + 1].first_row : group.rows;
        if (pages[i].first_row < 0 || end < pages[i].first_row || end > group.rows ||
            (i == 0 && pages[i].first_row != 0)) {
            throw DataError({.path = file_name(group), .offset = static_cast<std::int64_t>(pages[i].offset)},
                            {.where = "page",
                             .expected = "rows of the row group, in order",
                             .got = fmt::format("rows {} to {} of {}", pages[i].first_row, end, group.rows)});
        }
        if (i > 0 && i < with_dictionary) {
            runs.front().rows = end;
            runs.front().size = pages[i].offset + pages[i].size - runs.front().offset;
            continue;
        }
        const bool first = i == 0 && with_dictionary > 0;
        const std::uint64_t begin = first ? all.begin : pages[i].offset;
        runs.push_back({.offset = begin,
                        .size = pages[i].offset + pages[i].size - begin,
                        .first_row = pages[i].first_row,
                        .rows = end - pages[i].first_row,
                        .dictionary = first});
    }
    if (runs.empty()) {
        throw DataError({.path = file_name(group), .offset = static_cast<std::int64_t>(all.begin)},
                        {.where = "column", .expected = "pages", .got = "none"});
    }
    return runs;
}

const std::vector<ParquetRows::Run>& ParquetRows::runs(const Source& source, std::size_t group) const {
    GroupRuns& found = source.groups[group];
    std::call_once(found.once, [&] {
        found.runs = find_runs(groups_[group], source.leaves.front());
        found.known = true;
    });
    return found.runs;
}

ParquetValues ParquetRows::decode_run(const Group& group, std::int32_t leaf, const Run& run) const {
    const File& file = opened_[group.file];
    const std::uint64_t decoded = decoded_size(chunk(group, leaf), run.size);
    std::unique_lock large(large_run_, std::defer_lock);
    if (decoded > kLargeRun) {
        large.lock();
    }
    // Entries of a dictionary are copied once.
    TakenValues taken(file.map, run.rows, run.dictionary ? decoded : 0);
    call_arrow(file_name(group), [&](ArrowText* error) {
        return api_.parquet_values(
            file.handle.get(), group.number, leaf, run.offset, run.size, run.rows,
            [](void* user, const std::uint8_t* value, std::int64_t size) {
                static_cast<TakenValues*>(user)->take(value, size);
            },
            &taken, error);
    });
    if (static_cast<std::uint64_t>(bytes_) > kMostMapped) {
        drop_pages(file.map, run.offset, run.size);
    }
    if (taken.too_large()) {
        throw DataError({.path = file_name(group), .offset = static_cast<std::int64_t>(run.offset)},
                        {.where = "page",
                         .expected = fmt::format("values of at most {} bytes", taken.most()),
                         .got = "more",
                         .hint = "write the file with smaller pages"});
    }
    return std::move(taken).values();
}

std::optional<std::span<const std::byte>> ParquetRows::bytes(const ArrowSource* from, std::int64_t row,
                                                             Buffer& storage) const {
    const auto& source = static_cast<const Source&>(*from);
    const Place at = place(row);
    if (!source.paged) {
        const ArrowHeld held = value(from, row);
        if (held.cell.is_null()) {
            return std::nullopt;
        }
        const auto found = held.cell.bytes();
        storage.resize(found.size());
        std::ranges::copy(found, storage.data());
        return storage.bytes();
    }
    const Group& group = groups_[at.group];
    const std::vector<Run>& all = runs(source, at.group);
    const auto after = std::ranges::upper_bound(all, at.row, {}, &Run::first_row);
    const auto index = static_cast<std::size_t>(after - all.begin()) - 1;
    const Run& run = all[index];
    constexpr int kRunBits = 28;
    const std::uint64_t id = ((source.number * groups_.size() + at.group) << kRunBits) | index;
    const auto values = values_.get(id, [&] { return decode_run(group, source.leaves.front(), run); });
    const ParquetValues::Piece& piece = values->pieces[static_cast<std::size_t>(at.row - run.first_row)];
    if (piece.size < 0) {
        return std::nullopt;
    }
    const auto size = static_cast<std::size_t>(piece.size);
    if (!piece.copied) {
        return map_or_read_.get(opened_[group.file].map.subspan(piece.begin, size), *files_.open(group.file),
                                piece.begin, storage);
    }
    storage.resize(size);
    std::copy_n(values->bytes.begin() + static_cast<std::ptrdiff_t>(piece.begin), size, storage.data());
    return storage.bytes();
}

ParquetRows::Column ParquetRows::decode_column(const Group& group, const Source& source) const {
    Column column;
    ArrowOwned<ArrowSchema> schema;
    call_arrow(file_name(group), [&](ArrowText* error) {
        return api_.parquet_columns(opened_[group.file].handle.get(), group.number, source.leaves.data(),
                                    source.leaves.size(), schema.get(), column.array.get(), error);
    });
    column.type = read_arrow_type(*schema);
    column.bytes = arrow_bytes(column.type, *column.array);
    return column;
}

ArrowHeld ParquetRows::value(const ArrowSource* from, std::int64_t row) const {
    const auto& source = static_cast<const Source&>(*from);
    const Place at = place(row);
    const std::uint64_t id = source.number * groups_.size() + at.group;
    auto column = columns_.get(id, [&] { return decode_column(groups_[at.group], source); });
    ArrowHeld held = value_at({.type = &column->type, .array = &*column->array, .row = at.row}, source.path);
    held.holder = std::move(column);
    return held;
}

std::string ParquetRows::key(std::int64_t row) const {
    const Place at = place(row);
    const std::size_t file = groups_[at.group].file;
    return fmt::format("{}/{}", std::filesystem::path(files_.name(file)).stem().string(),
                       row - opened_[file].first_row);
}

bool ParquetRows::in_place(const Group& group, std::int32_t leaf) const {
    const ParquetChunk all = chunk(group, leaf);
    return !opened_[group.file].map.empty() && !all.compressed && all.dictionary_pages == 0;
}

std::int64_t ParquetRows::decoded_bytes(const Source& source) const {
    std::int64_t sum = 0;
    for (const Group& group : groups_) {
        for (const std::int32_t leaf : source.leaves) {
            const ParquetChunk all = chunk(group, leaf);
            constexpr std::int64_t kNumber = 8;  // pages are smaller than the values that they stand for
            const std::int64_t values = source.paged ? 0 : std::min(all.values, INT64_MAX / kNumber) * kNumber;
            if (__builtin_add_overflow(sum, std::max({all.decoded_size, values, std::int64_t{0}}), &sum)) {
                return INT64_MAX;
            }
        }
    }
    return sum;
}

std::vector<std::int64_t> ParquetRows::parts(std::span<const ArrowSource* const> sources) const {
    bool windows = files_.remote();
    std::int64_t columns = 0;  // bytes of those that are decoded by row groups
    std::int64_t paged = 0;
    std::int64_t longest = 1;  // rows of a run
    for (const ArrowSource* from : sources) {
        const auto& source = static_cast<const Source&>(*from);
        std::int64_t& sum = source.paged ? paged : columns;
        sum = std::min(sum, INT64_MAX / 2) + std::min(decoded_bytes(source), INT64_MAX / 2);
        if (!source.paged || groups_.empty()) {
            continue;
        }
        windows = windows || std::ranges::any_of(
                                 groups_, [&](const Group& group) { return !in_place(group, source.leaves.front()); });
        if (!files_.remote()) {
            for (const Run& run : runs(source, 0)) {
                longest = std::max(longest, run.rows);
            }
        }
    }
    const bool by_groups = columns > static_cast<std::int64_t>(kCacheBytes);
    std::vector<std::int64_t> parts;
    if (!windows && !by_groups) {
        return parts;
    }
    const std::int64_t mean = std::max<std::int64_t>(paged / std::max<std::int64_t>(size(), 1), 1);
    const bool whole = by_groups || files_.remote();
    const std::int64_t rows = whole ? std::numeric_limits<std::int64_t>::max() : std::max(kPartBytes / mean, longest);
    for (const Group& group : groups_) {
        for (std::int64_t first = 0; first < group.rows;) {
            parts.push_back(std::min(rows, group.rows - first));
            first += parts.back();
        }
    }
    return parts;
}

void ParquetRows::prefetch(std::span<const ArrowSource* const> sources, std::span<const std::int64_t> rows) const {
    if (!files_.remote()) {
        return;
    }
    std::unordered_map<std::size_t, std::vector<ByteRange>> ranges;
    for (const std::int64_t row : rows) {
        const Place at = place(row);
        for (const ArrowSource* from : sources) {
            const auto& source = static_cast<const Source&>(*from);
            if (!source.paged || !source.groups[at.group].known) {
                continue;
            }
            const std::vector<Run>& all = source.groups[at.group].runs;
            const auto after = std::ranges::upper_bound(all, at.row, {}, &Run::first_row);
            const Run& run = *(after - 1);
            ranges[groups_[at.group].file].push_back({.offset = run.offset, .size = run.size});
        }
    }
    for (auto& [file, wanted] : ranges) {
        files_.open(file)->prefetch(merge_ranges(std::move(wanted), kNearBytes));
    }
}

}  // namespace stoker
