// Sizes are checked before memory is allocated or the library is called.
#include "stoker/formats/hdf5/hdf5_columns.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <numeric>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/array.h"
#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_index.h"
#include "stoker/formats/hdf5/hdf5_records.h"
#include "stoker/io/gzip.h"

namespace stoker {
namespace {

constexpr const char* kText = "text";

// A dataset of more bytes than deflate can pack into the file is damaged, or holds nothing but its fill value.
void check_bytes(const Hdf5Bytes& file, const std::string& name, std::uint64_t bytes) {
    if (bytes / kMaxGzipRatio > file.size()) {
        throw DataError({.path = file.path()},
                        {.where = name,
                         .expected = fmt::format("no more than a file of {} bytes can hold", file.size()),
                         .got = fmt::format("{} bytes", bytes)});
    }
}

// Texts of variable length. Many of them may refer to one object of the file's heap.
class TextSum {
  public:
    TextSum(const Hdf5Bytes& file, const std::string& name) : file_(file), name_(name) {}

    // Throws DataError if they are longer than the file.
    void add(std::span<const std::byte> text) {
        sum_ += text.size();
        if (sum_ > file_.size()) {
            throw DataError({.path = file_.path()},
                            {.where = name_, .expected = "each text once", .got = "one text many times"});
        }
    }

  private:
    const Hdf5Bytes& file_;
    const std::string& name_;
    std::uint64_t sum_ = 0;
};

// The library reads a whole chunk, whose stated size may be 4 GiB, before it returns a part of it, and it crashes on a
// damaged index.
void require_chunks(const Hdf5Bytes& file, const Hdf5Info& info) {
    if (info.layout == Hdf5Layout::chunked) {
        require_memory(hdf5_shape_bytes(info, info.chunk, file.path()), info.name);
        require_sound_chunk_tree(file, info);
    }
}

std::string_view trimmed(std::string_view text, H5T_str_t padding) {
    if (padding == H5T_STR_NULLTERM) {
        return text.substr(0, text.find('\0'));
    }
    const std::size_t last = text.find_last_not_of(padding == H5T_STR_SPACEPAD ? ' ' : '\0');
    return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// Strings of fixed length, of a dataset or an attribute; `read` makes the library call for either.
std::vector<std::string> fixed_strings(const Hdf5Bytes& file, const std::string& name, const Hdf5Id& type,
                                       const Hdf5Id& space, const std::function<herr_t(hid_t type, void* out)>& read) {
    const std::string& path = file.path();
    const auto count = static_cast<std::size_t>(check_hdf5(H5Sget_simple_extent_npoints(space.get()), path, kText));
    const std::size_t item = H5Tget_size(type.get());
    check_bytes(file, name,
                checked_array_bytes({}, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(item)}));
    require_memory(count * (2 * item + sizeof(std::string)), name);
    std::vector<std::string> texts;
    std::string all(count * item, '\0');
    check_hdf5(read(type.get(), all.data()), path, kText);
    for (std::size_t i = 0; i < count; ++i) {
        texts.emplace_back(trimmed(std::string_view(all).substr(i * item, item), H5Tget_strpad(type.get())));
    }
    return texts;
}

// Strings of variable length of an attribute, read without the library, which crashes on a damaged heap.
std::vector<std::string> variable_strings(const Hdf5Bytes& file, const char* name, std::uint64_t header,
                                          hssize_t count) {
    const auto values = find_attribute(file, header, name);
    if (!values) {
        throw Unsupported({.where = file.path(),
                           .expected = fmt::format("the attribute {} in its object's header", name),
                           .got = "strings of variable length elsewhere",
                           .hint = "store strings of fixed length, or fewer attributes"});
    }
    const auto record_bytes = static_cast<std::uint64_t>(8 + file.superblock().address_bytes);
    if (static_cast<std::uint64_t>(count) > values->size / record_bytes) {
        file.damaged(values->offset, fmt::format("{} strings of {}", count, name),
                     fmt::format("{} bytes", values->size));
    }
    std::vector<std::string> texts;
    Buffer storage;
    const std::string what = name;
    TextSum sum(file, what);
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
        const auto record = file.view(values->offset + i * record_bytes, record_bytes, name);
        const std::span<const std::byte> text = read_sequence(file, record, storage);
        sum.add(text);
        texts.emplace_back(trimmed(as_text(text), H5T_STR_NULLTERM));
    }
    return texts;
}

// Some rows of a dataset of numbers, converted to numbers of 8 bytes. All rows of a one-hot table may exceed the
// memory.
void read_rows(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Info& info, std::int64_t first,
               const Shape& shape, Buffer& out) {
    std::vector<hsize_t> begin(shape.size(), 0);
    begin[0] = static_cast<hsize_t>(first);
    const std::vector<hsize_t> size(shape.begin(), shape.end());
    const auto elements = std::accumulate(size.begin(), size.end(), hsize_t{1}, std::multiplies<>());
    out.resize(static_cast<std::size_t>(elements) * 8);
    const std::string what = fmt::format("the numbers of {}", info.name);
    const Hdf5Lock lock;
    const Hdf5Id space(H5Dget_space(dataset.get()), H5Sclose, file.path(), what);
    check_hdf5(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin.data(), nullptr, size.data(), nullptr),
               file.path(), what);
    const Hdf5Id memory(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr), H5Sclose, file.path(),
                        what);
    const hid_t type = info.type.kind == ArrayKind::floating ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64;
    check_hdf5(H5Dread(dataset.get(), type, memory.get(), space.get(), H5P_DEFAULT, out.data()), file.path(), what);
}

}  // namespace

std::vector<std::int64_t> read_labels(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Info& info,
                                      std::int64_t count) {
    if (info.kind != Hdf5Kind::number) {
        throw DataError({.path = file.path()},
                        {.where = info.name,
                         .expected = "labels: integers, or one-hot rows",
                         .got = fmt::format("{} of ({})", info.type_name, fmt::join(info.shape, ", "))});
    }
    check_bytes(file, info.name, hdf5_shape_bytes(info, info.shape, file.path()));
    require_chunks(file, info);
    ArrayView part{.name = info.name, .type = info.type, .shape = info.shape, .bytes = {}};
    Buffer numbers;
    std::vector<std::int64_t> labels;
    try {
        if (!may_be_labels(part, count)) {
            array_labels(part, count);  // throws the reason before it reads any bytes
        }
        require_memory(static_cast<std::uint64_t>(count) * sizeof(std::int64_t), info.name);
        labels.reserve(static_cast<std::size_t>(count));
        const std::int64_t columns = info.shape.size() == 2 ? std::max<std::int64_t>(info.shape[1], 1) : 1;
        const std::int64_t most = std::max<std::int64_t>((std::int64_t{1} << 20) / columns, 1);
        part.type = {.kind = info.type.kind, .item_size = 8};
        for (std::int64_t row = 0; row < count; row += part.shape[0]) {
            part.shape[0] = std::min(most, count - row);
            read_rows(file, dataset, info, row, part.shape, numbers);
            part.bytes = numbers.bytes();
            const auto found = array_labels(part, part.shape[0], row);
            labels.insert(labels.end(), found.begin(), found.end());
        }
    } catch (const DataError& error) {
        // The message describes the dataset, not the rows and the converted type that array_labels saw.
        ErrorInfo info_of_all = error.info();
        if (error.place().index && info.shape.size() == 2 && info.shape[1] > 1) {
            info_of_all.got = fmt::format("another row in {} of ({})", info.type_name, fmt::join(info.shape, ", "));
        }
        throw DataError(error.place(), info_of_all).located({.path = file.path()});
    }
    return labels;
}

std::vector<std::string> read_strings(const Hdf5Bytes& file, Hdf5Id dataset, const Hdf5Info& info) {
    if (info.sequences) {
        check_bytes(file, info.name, hdf5_shape_bytes(info, info.shape, file.path()));
        require_memory(static_cast<std::uint64_t>(info.shape[0]) * sizeof(std::string), info.name);
        const auto records = open_records(file, std::move(dataset), info, Hdf5Access::fast);
        std::vector<std::string> texts;
        Buffer storage;
        TextSum sum(file, info.name);
        for (std::int64_t i = 0; i < info.shape[0]; ++i) {
            const std::span<const std::byte> text = records->read(i, storage);
            sum.add(text);
            texts.emplace_back(trimmed(as_text(text), H5T_STR_NULLTERM));
        }
        return texts;
    }
    require_chunks(file, info);
    const Hdf5Lock lock;
    const Hdf5Id type(H5Dget_type(dataset.get()), H5Tclose, file.path(), kText);
    const Hdf5Id space(H5Dget_space(dataset.get()), H5Sclose, file.path(), kText);
    return fixed_strings(file, info.name, type, space, [&](hid_t memory, void* out) {
        return H5Dread(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
    });
}

std::optional<std::vector<std::string>> read_string_attribute(const Hdf5Bytes& file, const Hdf5Id& object,
                                                              const char* name) {
    const Hdf5Lock lock;
    if (check_hdf5(H5Aexists(object.get(), name), file.path(), "attributes") == 0) {
        return std::nullopt;
    }
    const Hdf5Id attribute(H5Aopen(object.get(), name, H5P_DEFAULT), H5Aclose, file.path(), name);
    const Hdf5Id type(H5Aget_type(attribute.get()), H5Tclose, file.path(), name);
    const Hdf5Id space(H5Aget_space(attribute.get()), H5Sclose, file.path(), name);
    if (H5Tget_class(type.get()) != H5T_STRING) {
        throw DataError({.path = file.path()}, {.where = name, .expected = kText, .got = "another type"});
    }
    if (check_hdf5(H5Tis_variable_str(type.get()), file.path(), name) == 0) {
        return fixed_strings(file, name, type, space,
                             [&](hid_t memory, void* out) { return H5Aread(attribute.get(), memory, out); });
    }
    return variable_strings(file, name, hdf5_header_of(object, file.path()),
                            check_hdf5(H5Sget_simple_extent_npoints(space.get()), file.path(), name));
}

}  // namespace stoker
