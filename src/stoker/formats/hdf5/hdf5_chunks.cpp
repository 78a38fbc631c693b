// If a chunk is as wide as the record, pieces grow over the dimensions that it covers, up to the whole record.
#include "stoker/formats/hdf5/hdf5_chunks.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/hdf5/hdf5_info.h"

namespace stoker {
namespace {

std::vector<std::uint64_t> steps_of(const Shape& shape, std::size_t item) {
    std::vector<std::uint64_t> steps(shape.size());
    std::uint64_t step = item;
    for (std::size_t i = shape.size(); i-- > 0;) {
        steps[i] = step;
        step *= static_cast<std::uint64_t>(shape[i]);
    }
    return steps;
}

// Moves to the next coordinates with `place[i] < ends[i]`, from dimension `first` on; false after the last ones.
bool advance(Shape& place, const Shape& ends, std::size_t first) {
    for (std::size_t i = place.size(); i-- > first;) {
        if (++place[i] < ends[i]) {
            return true;
        }
        place[i] = 0;
    }
    return false;
}

}  // namespace

Hdf5Chunks::Hdf5Chunks(const Hdf5Bytes& file, const Hdf5Info& info, std::vector<Hdf5Chunk> index)
    : file_(file),
      info_(info),
      grid_(info, file.path()),
      index_(std::move(index)),
      complete_(index_.size() == grid_.count()),
      chunk_steps_(steps_of(info.chunk, info.item_size)),
      record_steps_(steps_of(info.shape, info.item_size)) {
    const auto own = static_cast<std::ptrdiff_t>(info.record_dims);
    record_bytes_ = record_steps_[info.record_dims - 1];
    rows_ = std::equal(info.shape.begin() + own, info.shape.end(), info.chunk.begin() + own);
    single_ = std::all_of(info.chunk.begin(), info.chunk.begin() + own, [](std::int64_t side) { return side == 1; });
}

const Hdf5Chunk* Hdf5Chunks::find(std::uint64_t cell) const {
    if (complete_) {
        return &index_[cell];
    }
    const auto found = std::ranges::lower_bound(index_, cell, {}, &Hdf5Chunk::cell);
    return found == index_.end() || found->cell != cell ? nullptr : &*found;
}

bool Hdf5Chunks::is_unfiltered(const Hdf5Chunk& chunk) const {
    const std::uint64_t all = (std::uint64_t{1} << info_.filters.size()) - 1;
    return (chunk.mask & all) == all;
}

Buffer Hdf5Chunks::decode(const Hdf5Chunk& chunk) const {
    Buffer storage;
    const std::span<const std::byte> stored = file_.get(chunk.offset, chunk.size, "a chunk", storage);
    return with_place({.path = file_.path(), .offset = static_cast<std::int64_t>(chunk.offset)},
                      [&] { return undo_filters(info_.filters, chunk.mask, stored, grid_.chunk_bytes()); });
}

std::uint64_t Hdf5Chunks::row_in_chunk(const Hdf5RecordPlace& record) const {
    std::uint64_t row = 0;
    for (std::size_t i = 0; i < info_.record_dims; ++i) {
        row += static_cast<std::uint64_t>(record[i] % info_.chunk[i]) * chunk_steps_[i];
    }
    return row;
}

Hdf5Chunks::Overlap Hdf5Chunks::overlap(const Hdf5RecordPlace& record, Shape at) const {
    for (std::size_t i = 0; i < info_.record_dims; ++i) {
        at[i] = record[i] / info_.chunk[i];
    }
    Overlap both{.at = at, .sides = Shape(at.size(), 1)};
    for (std::size_t i = info_.record_dims; i < at.size(); ++i) {
        both.sides[i] = std::min(info_.chunk[i], info_.shape[i] - at[i] * info_.chunk[i]);
    }
    return both;
}

template <typename Take>
void Hdf5Chunks::each_piece(const Overlap& overlap, Take take) const {
    Shape ends = overlap.sides;
    std::size_t run_from = ends.size();  // one piece covers the dimensions from here on
    std::uint64_t run = info_.item_size;
    for (bool whole = true; whole && run_from > info_.record_dims;) {
        --run_from;
        whole = ends[run_from] == info_.chunk[run_from] && ends[run_from] == info_.shape[run_from];
        run *= static_cast<std::uint64_t>(std::exchange(ends[run_from], 1));
    }
    std::uint64_t to = 0;
    for (std::size_t i = info_.record_dims; i < ends.size(); ++i) {
        to += static_cast<std::uint64_t>(overlap.at[i] * info_.chunk[i]) * record_steps_[i];
    }
    Shape place(ends.size(), 0);
    do {
        Piece piece{.from = 0, .to = to, .size = run};
        for (std::size_t i = info_.record_dims; i < run_from; ++i) {
            piece.from += static_cast<std::uint64_t>(place[i]) * chunk_steps_[i];
            piece.to += static_cast<std::uint64_t>(place[i]) * record_steps_[i];
        }
        take(piece);
    } while (advance(place, ends, info_.record_dims));
}

std::shared_ptr<const Buffer> Hdf5Chunks::decoded(const Hdf5Chunk& chunk) const {
    if (single_) {  // not cached
        return std::make_shared<const Buffer>(decode(chunk));
    }
    return cache_.get(chunk.cell, [&] { return decode(chunk); });
}

std::span<const std::byte> Hdf5Chunks::unfiltered_part(const Hdf5Chunk& chunk, std::uint64_t from,
                                                       Buffer& storage) const {
    if (chunk.size != grid_.chunk_bytes()) {
        file_.damaged(chunk.offset, fmt::format("an unfiltered chunk of {} bytes", grid_.chunk_bytes()),
                      fmt::format("{}", chunk.size));
    }
    return file_.get(chunk.offset + from, chunk_steps_[info_.record_dims - 1], "a chunk", storage);
}

void Hdf5Chunks::fill_part(const Hdf5RecordPlace& record, const Overlap& overlap, std::span<std::byte> out) const {
    std::uint64_t cell = 0;
    for (std::size_t i = 0; i < overlap.at.size(); ++i) {
        cell = cell * static_cast<std::uint64_t>(grid_.cells()[i]) + static_cast<std::uint64_t>(overlap.at[i]);
    }
    const Hdf5Chunk* chunk = find(cell);
    if (chunk == nullptr) {
        each_piece(overlap,
                   [&](const Piece& piece) { std::ranges::fill(out.subspan(piece.to, piece.size), info_.fill); });
        return;
    }
    const std::uint64_t row = row_in_chunk(record);
    Buffer storage;
    const bool plain = is_unfiltered(*chunk);
    const auto held = plain ? nullptr : decoded(*chunk);
    const std::byte* from = plain ? unfiltered_part(*chunk, row, storage).data() : held->data() + row;
    each_piece(overlap, [&](const Piece& piece) { std::memcpy(out.data() + piece.to, from + piece.from, piece.size); });
}

std::span<const std::byte> Hdf5Chunks::read_row(const Hdf5RecordPlace& record, Buffer& storage) const {
    std::uint64_t cell = 0;  // the other dimensions have one cell each
    for (std::size_t i = 0; i < info_.record_dims; ++i) {
        cell = cell * static_cast<std::uint64_t>(grid_.cells()[i]) +
               static_cast<std::uint64_t>(record[i] / info_.chunk[i]);
    }
    const Hdf5Chunk* chunk = find(cell);
    const std::uint64_t row = row_in_chunk(record);
    if (chunk != nullptr && is_unfiltered(*chunk)) {
        return unfiltered_part(*chunk, row, storage);
    }
    if (chunk != nullptr && single_) {
        storage = decode(*chunk);
        return storage.bytes();
    }
    storage.resize(record_bytes_);
    if (chunk == nullptr) {
        std::ranges::fill(storage.bytes(), info_.fill);
    } else {
        std::memcpy(storage.data(), decoded(*chunk)->data() + row, record_bytes_);
    }
    return storage.bytes();
}

std::span<const std::byte> Hdf5Chunks::read(std::int64_t index, Buffer& storage) const {
    const Hdf5RecordPlace record = hdf5_record_place(info_, index);
    if (rows_) {
        return read_row(record, storage);
    }
    storage.resize(record_bytes_);
    Shape at(info_.shape.size(), 0);
    do {
        fill_part(record, overlap(record, at), storage.bytes());
    } while (advance(at, grid_.cells(), info_.record_dims));
    return storage.bytes();
}

}  // namespace stoker
