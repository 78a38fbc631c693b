#include "stoker/formats/arrow/arrow_batches.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/formats/arrow/arrow_loader.h"
#include "stoker/formats/arrow/hub_features.h"

namespace stoker {
namespace {

// Throws the stream's reason unless `status` is 0.
void check_stream(ArrowArrayStream& stream, int status, const std::string& path) {
    if (status != 0) {
        const char* why = stream.get_last_error(&stream);
        throw DataError({.path = path}, {.where = "arrow",
                                         .expected = "record batches",
                                         .got = why == nullptr ? fmt::format("error {}", status) : why});
    }
}

}  // namespace

ArrowBatches::ArrowBatches(ArrowOwned<ArrowArrayStream> stream) {
    file_begins_.push_back(0);
    take_batches(*stream.get(), 0);
}

ArrowBatches::ArrowBatches(std::string path, const std::vector<std::string>& files) : path_(std::move(path)) {
    const ArrowApi& api = arrow_api();
    for (const std::string& name : files) {
        const ByteFile& file = *files_.emplace_back(open_byte_file(name));
        stems_.push_back(std::filesystem::path(name).stem().string());
        file_begins_.push_back(size());
        bytes_ += static_cast<std::int64_t>(file.size());
        if (file.map().empty()) {
            throw DataError({.path = name}, {.where = "arrow", .expected = "record batches", .got = "an empty file"});
        }
        const ArrowBytes bytes{.user = nullptr,
                               .size = file.size(),
                               .map = reinterpret_cast<const std::uint8_t*>(file.map().data()),
                               .read = nullptr};
        ArrowOwned<ArrowArrayStream> stream;
        call_arrow(name,
                   [&](ArrowText* error) { return api.open_ipc(&bytes, most_arrow_memory(), stream.get(), error); });
        take_batches(*stream.get(), files_.size() - 1);
    }
}

void ArrowBatches::take_batches(ArrowArrayStream& stream, std::size_t file) {
    const std::string path = files_.empty() ? "the table" : files_[file]->name();
    ArrowOwned<ArrowSchema> schema;
    check_stream(stream, stream.get_schema(&stream, schema.get()), path);
    ArrowType type = with_place({.path = path}, [&] { return read_arrow_type(*schema); });
    if (type.kind != ArrowKind::structure || (file > 0 && !same_columns(type, type_))) {
        throw DataError({.path = path},
                        {.where = "columns",
                         .expected = file > 0 ? arrow_type_name(type_) + ", as in the first file" : "named columns",
                         .got = arrow_type_name(type)});
    }
    std::string features = arrow_metadata(*schema, "huggingface");
    const auto classes = [&](const std::string& text) {
        return with_place({.path = path}, [&] { return read_hub_features(text); });
    };
    if (file > 0 && features != features_ && classes(features) != classes(features_)) {
        throw DataError({.path = path},
                        {.where = "columns", .expected = "the features of the first file", .got = "others"});
    }
    type_ = std::move(type);
    features_ = std::move(features);
    while (true) {
        Batch batch{.array = {}, .file = file};
        check_stream(stream, stream.get_next(&stream, batch.array.get()), path);
        if (batch.array->release == nullptr) {
            return;
        }
        const std::int64_t rows = batch.array->length;
        std::int64_t end = 0;
        if (rows < 0 || __builtin_add_overflow(size(), rows, &end)) {
            throw DataError({.path = path},
                            {.where = "batch", .expected = "a number of rows", .got = fmt::to_string(rows)});
        }
        if (rows > 0) {
            ends_.push_back(end);
            batches_.push_back(std::move(batch));
        }
    }
}

const ArrowSource* ArrowBatches::add(const ArrowPath& path) {
    if (type_at(type_, path) == nullptr) {
        throw DataError({.path = path_}, {.where = "columns", .expected = dotted(path), .got = arrow_type_name(type_)});
    }
    const std::lock_guard lock(mutex_);
    sources_.emplace_back().path = path;
    return &sources_.back();
}

ArrowHeld ArrowBatches::value(const ArrowSource* source, std::int64_t row) const {
    const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends_, row) - ends_.begin());
    const ArrowArray& batch = *batches_[at].array;
    return value_at({.type = &type_, .array = &batch, .row = row - (ends_[at] - batch.length)}, source->path);
}

std::optional<std::span<const std::byte>> ArrowBatches::bytes(const ArrowSource* source, std::int64_t row,
                                                              Buffer& /*storage*/) const {
    const ArrowCell cell = value(source, row).cell;
    return cell.is_null() ? std::nullopt : std::optional(cell.bytes());
}

std::string ArrowBatches::key(std::int64_t row) const {
    if (stems_.empty()) {
        return fmt::to_string(row);
    }
    const auto after = std::ranges::upper_bound(file_begins_, row);
    const auto file = static_cast<std::size_t>(after - file_begins_.begin()) - 1;
    return fmt::format("{}/{}", stems_[file], row - file_begins_[file]);
}

}  // namespace stoker
