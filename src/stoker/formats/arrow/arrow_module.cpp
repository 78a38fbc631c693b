// libstoker_arrow-RELEASE.so: Parquet files and Arrow files through Apache Arrow's C++ libraries, those of the wheel
// pyarrow. Rows of byte arrays are read by pages, other columns by row groups, which are handed over through the Arrow
// C data interface.
#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <arrow/util/config.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/column_reader.h>
#include <parquet/page_index.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "stoker/formats/arrow/arrow_api.h"
#include "stoker/formats/arrow/arrow_module_io.h"
#include "stoker/io/zstd.h"

namespace {

using stoker::ArrowBytes;
using stoker::ArrowText;
using stoker::ParquetChunk;
using stoker::ParquetPage;

using namespace stoker::arrow_io;  // NOLINT: this file alone

}  // namespace

namespace stoker {

struct ParquetHandle {
  public:
    explicit ParquetHandle(const ArrowBytes& bytes)
        : bytes_(bytes),
          read_bytes_(without_map(bytes)),
          file_(std::make_shared<BytesFile>(read_bytes_)),
          reader_(parquet::ParquetFileReader::Open(file_, page_properties())),
          metadata_(reader_->metadata()) {
        const parquet::SchemaDescriptor& schema = *metadata_->schema();
        parquet::arrow::SchemaManifest manifest;
        check(parquet::arrow::SchemaManifest::Make(&schema, metadata_->key_value_metadata(), arrow_properties(),
                                                   &manifest));
        paths_.resize(static_cast<std::size_t>(schema.num_columns()));
        arrow::FieldVector fields;
        for (const parquet::arrow::SchemaField& field : manifest.schema_fields) {
            name_leaves(field, field.field->name());
            fields.push_back(field.field);
        }
        schema_ = arrow::schema(std::move(fields), metadata_->key_value_metadata());
        for (int leaf = 0; leaf < schema.num_columns(); ++leaf) {
            const parquet::ColumnDescriptor& column = *schema.Column(leaf);
            const bool number = column.logical_type() != nullptr && column.logical_type()->is_decimal();
            plain_bytes_.push_back(column.physical_type() == parquet::Type::BYTE_ARRAY &&
                                   column.max_repetition_level() == 0 && !number);
        }
        check_rows();
    }

    // The number of a row group's rows, which memory depends on, must be that of its columns' values.
    void check_rows() const {
        for (int group = 0; group < metadata_->num_row_groups(); ++group) {
            const auto meta = metadata_->RowGroup(group);
            for (int leaf = 0; leaf < metadata_->num_columns(); ++leaf) {
                const bool flat = metadata_->schema()->Column(leaf)->max_repetition_level() == 0;
                const std::int64_t values = meta->ColumnChunk(leaf)->num_values();
                if (flat ? values != meta->num_rows() : values < meta->num_rows()) {
                    refuse("a row group of another number of rows than its columns have");
                }
            }
        }
    }

    ParquetInfo info() const {
        return {.rows = metadata_->num_rows(),
                .groups = metadata_->num_row_groups(),
                .leaves = static_cast<std::int32_t>(paths_.size())};
    }
    const arrow::Schema& schema() const { return *schema_; }
    ParquetLeaf leaf(std::size_t at) const { return {.path = paths_[at].c_str(), .is_bytes = plain_bytes_[at]}; }
    std::int64_t group_rows(int group) const { return metadata_->RowGroup(group)->num_rows(); }

    ParquetChunk chunk(int group, int leaf) const {
        const auto meta = metadata_->RowGroup(group)->ColumnChunk(leaf);
        const std::int64_t data = meta->data_page_offset();
        const std::int64_t begin =
            meta->has_dictionary_page() && meta->dictionary_page_offset() > 0 && meta->dictionary_page_offset() < data
                ? meta->dictionary_page_offset()
                : data;
        const std::int64_t size = meta->total_compressed_size();
        const auto all = static_cast<std::int64_t>(bytes_.size);
        if (begin < 0 || size < 0 || begin > all || size > all - begin || data > begin + size) {
            refuse("a column's bytes lie outside the file");
        }
        return {.begin = static_cast<std::uint64_t>(begin),
                .size = static_cast<std::uint64_t>(size),
                .data = static_cast<std::uint64_t>(data),
                .decoded_size = meta->total_uncompressed_size(),
                .values = meta->num_values(),
                .compressed = meta->compression() != parquet::Compression::UNCOMPRESSED,
                .dictionary_pages = dictionary_pages(*meta)};
    }

    template <typename Take>
    void pages(int group, int leaf, Take take_page) const {
        const ParquetChunk place = chunk(group, leaf);
        if (const auto index = offset_index(group, leaf)) {
            for (const auto& page : index->page_locations()) {
                take_page(ParquetPage{.offset = static_cast<std::uint64_t>(page.offset),
                                      .size = static_cast<std::uint64_t>(page.compressed_page_size),
                                      .first_row = page.first_row_index});
            }
            return;
        }
        walk_pages(group, leaf, place, take_page);
    }

    template <typename Take>
    void values(int group, int leaf, std::uint64_t offset, std::uint64_t size, std::int64_t rows,
                Take take_value) const {
        if (offset > bytes_.size || size > bytes_.size - offset) {
            refuse("a page lies outside the file");
        }
        const parquet::ColumnDescriptor& column = *metadata_->schema()->Column(leaf);
        const auto meta = metadata_->RowGroup(group)->ColumnChunk(leaf);
        const bool in_place = meta->compression() == parquet::Compression::UNCOMPRESSED && dictionary_pages(*meta) == 0;
        auto stream = std::make_shared<BytesStream>(in_place ? bytes_ : read_bytes_, offset, offset + size);
        const auto reader =
            parquet::ColumnReader::Make(&column, page_reader(group, leaf, std::move(stream), rows), &pool());
        auto& values = dynamic_cast<parquet::ByteArrayReader&>(*reader);
        constexpr std::int64_t kBatch = 256;
        std::array<std::int16_t, kBatch> levels{};
        std::array<parquet::ByteArray, kBatch> found{};
        std::int64_t left = rows;
        while (left > 0 && values.HasNext()) {
            std::int64_t present = 0;
            const std::int64_t read =
                values.ReadBatch(std::min(left, kBatch), levels.data(), nullptr, found.data(), &present);
            if (read <= 0) {
                break;
            }
            const bool nullable = column.max_definition_level() > 0;
            std::int64_t next = 0;
            for (std::int64_t i = 0; i < read; ++i) {
                const bool is_null = nullable && levels[static_cast<std::size_t>(i)] < column.max_definition_level();
                if (!is_null && next == present) {
                    refuse("fewer values than rows");
                }
                const parquet::ByteArray& value = found[static_cast<std::size_t>(is_null ? 0 : next++)];
                take_value(is_null ? nullptr : value.ptr, is_null ? -1 : static_cast<std::int64_t>(value.len));
            }
            left -= read;
        }
        if (left > 0) {
            refuse("fewer rows than the page has");
        }
    }

    std::shared_ptr<arrow::RecordBatch> columns(int group, const std::vector<int>& leaves) const {
        parquet::arrow::FileReaderBuilder builder;
        check(builder.Open(file_, page_properties(), metadata_));
        std::unique_ptr<parquet::arrow::FileReader> reader;
        check(builder.memory_pool(&pool())->properties(arrow_properties())->Build(&reader));
        std::shared_ptr<arrow::Table> table;
#if ARROW_VERSION_MAJOR >= 24
        table = take(reader->ReadRowGroup(group, leaves));
#else
        check(reader->ReadRowGroup(group, leaves, &table));
#endif
        auto batch = take(table->CombineChunksToBatch(&pool()));
        if (batch->num_rows() != group_rows(group)) {
            refuse("another number of rows than the row group");
        }
        return batch;
    }

  private:
    // Pages of a map that were touched count as the process's memory, so only values that stay there are read in it.
    static ArrowBytes without_map(ArrowBytes bytes) {
        bytes.map = nullptr;
        return bytes;
    }

    // The names of structs around a leaf; lists have none.
    void name_leaves(const parquet::arrow::SchemaField& field, const std::string& path) {
        if (field.is_leaf()) {
            paths_.at(static_cast<std::size_t>(field.column_index)) = path;
        }
        for (const parquet::arrow::SchemaField& child : field.children) {
            const bool is_struct = field.field->type()->id() == arrow::Type::STRUCT;
            name_leaves(child, is_struct ? path + "." + child.field->name() : path);
        }
    }

    static parquet::ArrowReaderProperties arrow_properties() {
        parquet::ArrowReaderProperties properties(false);  // workers are threads
        properties.set_pre_buffer(false);
        return properties;
    }

    // Writers begin with a dictionary and may give it up, for good.
    static std::int32_t dictionary_pages(const parquet::ColumnChunkMetaData& meta) {
        std::int32_t with = 0;
        std::int32_t others = 0;
        for (const parquet::PageEncodingStats& stats : meta.encoding_stats()) {
            if (stats.page_type == parquet::PageType::DICTIONARY_PAGE) {
                continue;
            }
            const bool refers = stats.encoding == parquet::Encoding::RLE_DICTIONARY ||
                                stats.encoding == parquet::Encoding::PLAIN_DICTIONARY;
            (refers ? with : others) += std::max(stats.count, 0);
        }
        if (with + others > 0) {
            return with;
        }
        const bool may = std::ranges::any_of(meta.encodings(), [](parquet::Encoding::type encoding) {
            return encoding == parquet::Encoding::RLE_DICTIONARY || encoding == parquet::Encoding::PLAIN_DICTIONARY;
        });
        return meta.has_dictionary_page() || may ? -1 : 0;
    }

    std::shared_ptr<parquet::OffsetIndex> offset_index(int group, int leaf) const {
        if (!metadata_->RowGroup(group)->ColumnChunk(leaf)->GetOffsetIndexLocation()) {
            return nullptr;
        }
        const std::lock_guard lock(page_index_mutex_);  // the reader makes its parts at the first use
        const auto pages = reader_->GetPageIndexReader();
        const auto of_group = pages == nullptr ? nullptr : pages->RowGroup(group);
        return of_group == nullptr ? nullptr : of_group->GetOffsetIndex(leaf);
    }

    // Releases of Arrow before 3 compressed pages of version 2 without saying so.
    bool always_compressed() const {
        return metadata_->writer_version().VersionLt(parquet::ApplicationVersion::PARQUET_CPP_10353_FIXED_VERSION());
    }

    std::unique_ptr<parquet::PageReader> page_reader(int group, int leaf, std::shared_ptr<BytesStream> stream,
                                                     std::int64_t rows) const {
        const auto codec = metadata_->RowGroup(group)->ColumnChunk(leaf)->compression();
#if ARROW_VERSION_MAJOR >= 25
        return parquet::PageReader::Open(std::move(stream), rows, codec, page_properties(),
                                         *metadata_->schema()->Column(leaf), always_compressed());
#else
        return parquet::PageReader::Open(std::move(stream), rows, codec, page_properties(), always_compressed());
#endif
    }

    // Reads the headers: a filter, which is called after each, skips the page. Headers are peeked at.
    template <typename Take>
    void walk_pages(int group, int leaf, const ParquetChunk& place, Take take_page) const {
        const std::int64_t rows = group_rows(group);
        const std::uint64_t end = place.begin + place.size;
        const auto stream = std::make_shared<BytesStream>(bytes_, place.data, end);
        const auto reader = page_reader(group, leaf, stream, rows);
        std::vector<ParquetPage> pages;
        std::int64_t seen = 0;
        reader->set_data_page_filter([&](const parquet::DataPageStats& stats) {
            pages.push_back({.offset = stream->peeked_at(), .size = 0, .first_row = seen});
            seen += std::max(stats.num_values, 0);
            stream->skip_next();
            return true;
        });
        while (reader->NextPage() != nullptr) {
        }
        if (seen != rows) {
            refuse("pages of another number of rows than the row group");
        }
        for (std::size_t i = 0; i < pages.size(); ++i) {
            pages[i].size = (i + 1 < pages.size() ? pages[i + 1].offset : end) - pages[i].offset;
            take_page(pages[i]);
        }
    }

    ArrowBytes bytes_;
    ArrowBytes read_bytes_;  // the same without the map
    std::shared_ptr<BytesFile> file_;
    std::unique_ptr<parquet::ParquetFileReader> reader_;
    mutable std::mutex page_index_mutex_;
    std::shared_ptr<parquet::FileMetaData> metadata_;
    std::shared_ptr<arrow::Schema> schema_;
    std::vector<std::string> paths_;
    std::vector<bool> plain_bytes_;
};

}  // namespace stoker

namespace {

using stoker::ParquetHandle;

ParquetHandle* open_parquet(const ArrowBytes* bytes, std::int64_t most_memory, ArrowText* error) {
    ParquetHandle* file = nullptr;
    pool().limit(most_memory);
    guarded(error, [&] { file = new ParquetHandle(*bytes); });
    return file;
}

void close_parquet(ParquetHandle* file) {
    delete file;
}

void parquet_info(const ParquetHandle* file, stoker::ParquetInfo* info) {
    *info = file->info();
}

bool parquet_schema(const ParquetHandle* file, ArrowSchema* out, ArrowText* error) {
    return guarded(error, [&] { check(arrow::ExportSchema(file->schema(), out)); });
}

void parquet_leaf(const ParquetHandle* file, std::int32_t leaf, stoker::ParquetLeaf* out) {
    *out = file->leaf(static_cast<std::size_t>(leaf));
}

std::int64_t group_rows(const ParquetHandle* file, std::int32_t group) {
    return file->group_rows(group);
}

bool parquet_chunk(const ParquetHandle* file, std::int32_t group, std::int32_t leaf, ParquetChunk* out,
                   ArrowText* error) {
    return guarded(error, [&] { *out = file->chunk(group, leaf); });
}

bool parquet_pages(const ParquetHandle* file, std::int32_t group, std::int32_t leaf,
                   void (*take_page)(void* user, const ParquetPage* page), void* user, ArrowText* error) {
    return guarded(error, [&] { file->pages(group, leaf, [&](const ParquetPage& page) { take_page(user, &page); }); });
}

bool parquet_values(const ParquetHandle* file, std::int32_t group, std::int32_t leaf, std::uint64_t offset,
                    std::uint64_t size, std::int64_t rows,
                    void (*take_value)(void* user, const std::uint8_t* value, std::int64_t size), void* user,
                    ArrowText* error) {
    return guarded(error, [&] {
        file->values(group, leaf, offset, size, rows,
                     [&](const std::uint8_t* value, std::int64_t length) { take_value(user, value, length); });
    });
}

bool parquet_columns(const ParquetHandle* file, std::int32_t group, const std::int32_t* leaves, std::size_t count,
                     ArrowSchema* schema, ArrowArray* array, ArrowText* error) {
    return guarded(error, [&] {
        check(arrow::ExportRecordBatch(*file->columns(group, {leaves, leaves + count}), array, schema));
    });
}

// A stream, or a file, which has a table of its batches at its end.
std::shared_ptr<arrow::RecordBatchReader> batches_of(const ArrowBytes& bytes) {
    const auto file = std::make_shared<BytesFile>(bytes);
    arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
    options.memory_pool = &pool();
    options.use_threads = false;
    constexpr std::string_view kMagic = "ARROW1";
    if (bytes.size < kMagic.size() || std::memcmp(bytes.map, kMagic.data(), kMagic.size()) != 0) {
        return take(arrow::ipc::RecordBatchStreamReader::Open(file, options));
    }
    const auto reader = take(arrow::ipc::RecordBatchFileReader::Open(file, options));
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    for (int i = 0; i < reader->num_record_batches(); ++i) {
        batches.push_back(take(reader->ReadRecordBatch(i)));
    }
    return take(arrow::RecordBatchReader::Make(std::move(batches), reader->schema()));
}

// The largest allocation of this thread, while this object exists: a compressed buffer may state any size.
struct LargestPiece {
    explicit LargestPiece(std::int64_t bytes) { LimitedPool::largest_piece = bytes; }
    ~LargestPiece() { LimitedPool::largest_piece = std::numeric_limits<std::int64_t>::max(); }
};

bool open_ipc(const ArrowBytes* bytes, std::int64_t most_memory, ArrowArrayStream* out, ArrowText* error) {
    return guarded(error, [&] {
        pool().limit(most_memory);
        const LargestPiece largest(static_cast<std::int64_t>(bytes->size * stoker::kMaxZstdRatio));
        const auto reader = batches_of(*bytes);
        std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
        while (const auto batch = take(reader->Next())) {
            check(batch->Validate());  // sizes of buffers, first and last offsets
            batches.push_back(batch);
        }
        check(arrow::ExportRecordBatchReader(take(arrow::RecordBatchReader::Make(std::move(batches), reader->schema())),
                                             out));
    });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const stoker::ArrowApi* stoker_arrow_api() {
    static const stoker::ArrowApi api{.version = stoker::kArrowApiVersion,
                                      .open_parquet = open_parquet,
                                      .close_parquet = close_parquet,
                                      .parquet_info = parquet_info,
                                      .parquet_schema = parquet_schema,
                                      .parquet_leaf = parquet_leaf,
                                      .group_rows = group_rows,
                                      .parquet_chunk = parquet_chunk,
                                      .parquet_pages = parquet_pages,
                                      .parquet_values = parquet_values,
                                      .parquet_columns = parquet_columns,
                                      .open_ipc = open_ipc};
    return &api;
}
