// Contiguous datasets, and all others through the library. hdf5_chunks.h has the chunked ones.
#include "stoker/formats/hdf5/hdf5_records.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_chunks.h"
#include "stoker/formats/hdf5/hdf5_info.h"

namespace stoker {
namespace {

constexpr const char* kElements = "the dataset's elements";

std::uint64_t record_bytes(const Hdf5Info& info, const std::string& path) {
    return hdf5_shape_bytes(
        info, Shape(info.shape.begin() + static_cast<std::ptrdiff_t>(info.record_dims), info.shape.end()), path);
}

class ContiguousRecords final : public Hdf5Records {
  public:
    ContiguousRecords(const Hdf5Bytes& file, const Hdf5Info& info, std::uint64_t offset)
        : file_(file), offset_(offset), bytes_(record_bytes(info, file.path())) {
        file.view(offset_, hdf5_shape_bytes(info, info.shape, file.path()), info.name);
    }

    std::span<const std::byte> read(std::int64_t index, Buffer& storage) const override {
        return file_.get(offset_ + static_cast<std::uint64_t>(index) * bytes_, bytes_, "a record", storage);
    }

  private:
    const Hdf5Bytes& file_;
    std::uint64_t offset_;
    std::uint64_t bytes_;
};

// Any layout: one H5Dread under the lock for each record.
class LibraryRecords final : public Hdf5Records {
  public:
    LibraryRecords(const Hdf5Bytes& file, Hdf5Id dataset, const Hdf5Info& info)
        : path_(file.path()), dataset_(std::move(dataset)), info_(info), bytes_(record_bytes(info, path_)) {
        const Hdf5Lock lock;
        type_ = Hdf5Id(H5Dget_type(dataset_.get()), H5Tclose, path_, kElements);
        std::array<hsize_t, H5S_MAX_RANK> sides = one_record();
        memory_ = Hdf5Id(H5Screate_simple(static_cast<int>(info.shape.size()), sides.data(), nullptr), H5Sclose, path_,
                         kElements);
    }

    std::span<const std::byte> read(std::int64_t index, Buffer& storage) const override {
        const Hdf5Lock lock;
        const Hdf5Id space(H5Dget_space(dataset_.get()), H5Sclose, path_, kElements);
        const std::array<hsize_t, H5S_MAX_RANK> sides = one_record();
        std::array<hsize_t, H5S_MAX_RANK> first{};
        std::ranges::copy(hdf5_record_place(info_, index), first.begin());  // zeros follow
        check_hdf5(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, first.data(), nullptr, sides.data(), nullptr),
                   path_, kElements);
        if (info_.sequences) {
            return read_sequence(space, storage);
        }
        storage.resize(bytes_);
        std::ranges::fill(storage.bytes(), info_.fill);
        check_hdf5(H5Dread(dataset_.get(), type_.get(), memory_.get(), space.get(), H5P_DEFAULT, storage.data()), path_,
                   kElements);
        return storage.bytes();
    }

  private:
    std::array<hsize_t, H5S_MAX_RANK> one_record() const {
        std::array<hsize_t, H5S_MAX_RANK> sides{};
        std::ranges::copy(info_.shape, sides.begin());
        std::fill_n(sides.begin(), info_.record_dims, 1);
        return sides;
    }

    std::span<const std::byte> read_sequence(const Hdf5Id& space, Buffer& storage) const {
        hvl_t sequence{};
        const bool text = info_.kind == Hdf5Kind::text;  // ends at a zero byte, without a stored length
        void* out = text ? static_cast<void*>(&sequence.p) : &sequence;
        check_hdf5(H5Dread(dataset_.get(), type_.get(), memory_.get(), space.get(), H5P_DEFAULT, out), path_,
                   kElements);
        if (text && sequence.p != nullptr) {
            sequence.len = std::strlen(static_cast<const char*>(sequence.p));
        }
        storage.resize(sequence.len);
        std::copy_n(static_cast<const std::byte*>(sequence.p), sequence.len, storage.data());
        check_hdf5(H5Dvlen_reclaim(type_.get(), memory_.get(), H5P_DEFAULT, out), path_, kElements);
        return storage.bytes();
    }

    std::string path_;
    Hdf5Id dataset_;
    Hdf5Info info_;
    std::uint64_t bytes_;
    Hdf5Id type_;
    Hdf5Id memory_;
};

class Hdf5Sequences final : public Hdf5Records {
  public:
    Hdf5Sequences(const Hdf5Bytes& file, std::unique_ptr<const Hdf5Records> records)
        : file_(file), records_(std::move(records)) {}

    std::span<const std::byte> read(std::int64_t index, Buffer& storage) const override {
        return read_sequence(file_, records_->read(index, storage), storage);
    }

  private:
    const Hdf5Bytes& file_;
    std::unique_ptr<const Hdf5Records> records_;
};

// The offset of a compact dataset's elements. A shape that promises more would make the library read beyond the header
// that holds them.
std::uint64_t compact_offset(const Hdf5Bytes& file, const Hdf5Info& info) {
    const ByteRange data = find_compact_data(file, info.header);
    const std::uint64_t size = hdf5_shape_bytes(info, info.shape, file.path());
    if (size != data.size) {
        throw DataError({.path = file.path()}, {.where = info.name,
                                                .expected = fmt::format("a compact dataset of {} bytes", size),
                                                .got = fmt::format("{} bytes", data.size)});
    }
    return data.offset;
}

// Null if the library has to read the records.
std::unique_ptr<const Hdf5Records> open_fast(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Info& info) {
    if (info.layout == Hdf5Layout::compact) {
        return std::make_unique<ContiguousRecords>(file, info, compact_offset(file, info));
    }
    if (info.layout == Hdf5Layout::contiguous && info.stored) {
        return std::make_unique<ContiguousRecords>(file, info, info.offset);
    }
    if (info.layout == Hdf5Layout::chunked && !info.unfiltered_edges && !info.other_fill) {
        if (auto index = read_chunk_index(file, dataset, info)) {
            return std::make_unique<Hdf5Chunks>(file, info, std::move(*index));
        }
    }
    return nullptr;
}

}  // namespace

std::unique_ptr<const Hdf5Records> open_records(const Hdf5Bytes& file, Hdf5Id dataset, const Hdf5Info& info,
                                                Hdf5Access access) {
    check_filters(info, file.path());
    if (access == Hdf5Access::library) {
        return std::make_unique<LibraryRecords>(file, std::move(dataset), info);
    }
    auto records = open_fast(file, dataset, info);
    if (records == nullptr && info.sequences) {
        throw Unsupported({.where = file.path(),
                           .expected = fmt::format("elements of variable length in {} that can be read without the "
                                                   "HDF5 library, which crashes on damaged ones",
                                                   info.name),
                           .got = "another layout",
                           .hint = "`h5repack IN.h5 OUT.h5` writes them anew"});
    }
    if (records == nullptr) {
        return std::make_unique<LibraryRecords>(file, std::move(dataset), info);
    }
    if (info.sequences) {
        return std::make_unique<Hdf5Sequences>(file, std::move(records));
    }
    return records;
}

}  // namespace stoker
