// A B-tree node is "TREE", type 1, its level, the number of entries and two siblings, then pairs of key and child. A
// leaf's child is a chunk; its key holds the chunk's size, filter mask and first element.
#include "stoker/formats/hdf5/hdf5_index.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unordered_set>

#include "stoker/base/error.h"
#include "stoker/formats/hdf5/hdf5_bytes.h"

namespace stoker {
namespace {

constexpr const char* kNode = "a B-tree node";
// Chunks that the library is asked for one by one: it takes about 10 ms for so many, and the time grows quadratically.
constexpr hsize_t kMaxAsked = 1000;

void check_chunk(const Hdf5Bytes& file, const Hdf5Info& info, const Hdf5Grid& grid, const Hdf5Chunk& chunk) {
    file.view(chunk.offset, chunk.size, "a chunk");
    if (info.filters.empty() && chunk.size != grid.chunk_bytes()) {
        file.damaged(chunk.offset, fmt::format("a chunk of {} bytes", grid.chunk_bytes()),
                     fmt::format("{}", chunk.size));
    }
}

class TreeWalk {
  public:
    TreeWalk(const Hdf5Bytes& file, const Hdf5Info& info, const Hdf5Grid& grid)
        : file_(file), info_(info), grid_(grid) {}

    std::vector<Hdf5Chunk> chunks;

    // Recursion is at most 256 deep, because a child must be one level below its parent and the level is one byte.
    void visit(std::uint64_t address, int level) {
        const std::uint64_t offset = file_.offset_of(address, kNode);
        if (!seen_.insert(offset).second) {
            file_.damaged(offset, "each B-tree node once", "the same node twice");
        }
        Hdf5Cursor cursor(file_, offset, file_.size(), kNode);
        const bool sound = cursor.text(4) == "TREE" && cursor.number(1) == 1;
        if (!sound) {
            file_.damaged(offset, "a B-tree node of chunks", file_.shown(offset, 5));
        }
        const int found = static_cast<int>(cursor.number(1));
        if (level >= 0 && found != level) {
            file_.damaged(offset, fmt::format("a B-tree node of level {}, one below its parent", level),
                          fmt::format("level {}", found));
        }
        const std::uint64_t entries = cursor.number(2);
        cursor.address();
        cursor.address();
        for (std::uint64_t i = 0; i < entries; ++i) {
            visit_entry(cursor, found);
        }
    }

  private:
    void visit_entry(Hdf5Cursor& cursor, int level) {
        const std::uint64_t offset = cursor.offset();
        Hdf5Chunk chunk;
        chunk.size = cursor.number(4);
        chunk.mask = static_cast<std::uint32_t>(cursor.number(4));
        for (std::int64_t& first : first_) {
            first = static_cast<std::int64_t>(cursor.number(8));
        }
        cursor.number(8);  // byte within an element
        const std::uint64_t child = cursor.address();
        if (level > 0) {
            visit(child, level - 1);
            return;
        }
        const auto cell = grid_.cell(first_);
        if (!cell) {
            file_.damaged(offset, "the first element of a chunk", fmt::format("({})", fmt::join(first_, ", ")));
        }
        chunk.cell = *cell;
        chunk.offset = file_.offset_of(child, "a chunk");
        check_chunk(file_, info_, grid_, chunk);
        chunks.push_back(chunk);
    }

    const Hdf5Bytes& file_;
    const Hdf5Info& info_;
    const Hdf5Grid& grid_;
    Shape first_ = Shape(info_.shape.size());
    std::unordered_set<std::uint64_t> seen_;
};

Hdf5Id space_of(const Hdf5Bytes& file, const Hdf5Id& dataset) {
    const Hdf5Lock lock;
    return {H5Dget_space(dataset.get()), H5Sclose, file.path(), "the dataset's shape"};
}

hsize_t count_chunks(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Id& space) {
    const Hdf5Lock lock;
    hsize_t count = 0;
    check_hdf5(H5Dget_num_chunks(dataset.get(), space.get(), &count), file.path(), "the number of chunks");
    return count;
}

// Empty if the index is of another kind.
std::optional<std::vector<Hdf5Chunk>> read_chunk_tree(const Hdf5Bytes& file, const Hdf5Info& info) {
    const auto tree = find_chunk_tree(file, info.header);
    if (!tree) {
        return std::nullopt;
    }
    const Hdf5Grid grid(info, file.path());
    TreeWalk walk(file, info, grid);
    if (!file.is_undefined(*tree)) {
        walk.visit(*tree, -1);
    }
    return std::move(walk.chunks);
}

std::vector<Hdf5Chunk> in_order(std::vector<Hdf5Chunk> chunks, const Hdf5Bytes& file) {
    std::ranges::sort(chunks, {}, &Hdf5Chunk::cell);
    const auto twice = std::ranges::adjacent_find(chunks, {}, &Hdf5Chunk::cell);
    if (twice != chunks.end()) {
        file.damaged(twice->offset, "each chunk once", fmt::format("chunk {} twice", twice->cell));
    }
    return chunks;
}

}  // namespace

Hdf5Grid::Hdf5Grid(const Hdf5Info& info, const std::string& path) : shape_(info.shape), chunk_(info.chunk) {
    hdf5_shape_bytes(info, shape_, path);  // throws if a product below would overflow
    chunk_bytes_ = hdf5_shape_bytes(info, chunk_, path);
    for (std::size_t i = 0; i < shape_.size(); ++i) {
        cells_.push_back(shape_[i] / chunk_[i] + (shape_[i] % chunk_[i] != 0 ? 1 : 0));
        count_ *= static_cast<std::uint64_t>(cells_.back());
    }
}

std::optional<std::uint64_t> Hdf5Grid::cell(const Shape& first) const {
    std::uint64_t cell = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
        if (first[i] < 0 || first[i] >= shape_[i] || first[i] % chunk_[i] != 0) {
            return std::nullopt;
        }
        cell = cell * static_cast<std::uint64_t>(cells_[i]) + static_cast<std::uint64_t>(first[i] / chunk_[i]);
    }
    return cell;
}

std::optional<std::vector<Hdf5Chunk>> read_chunk_index(const Hdf5Bytes& file, const Hdf5Id& dataset,
                                                       const Hdf5Info& info) {
    if (auto chunks = read_chunk_tree(file, info)) {
        return in_order(std::move(*chunks), file);
    }
    const hsize_t count = count_chunks(file, dataset, space_of(file, dataset));
    if (count > kMaxAsked || file.superblock().base != 0) {
        return std::nullopt;
    }
    return ask_chunk_index(file, dataset, info);
}

std::vector<Hdf5Chunk> ask_chunk_index(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Info& info) {
    const Hdf5Lock lock;
    const Hdf5Grid grid(info, file.path());
    const Hdf5Id space = space_of(file, dataset);
    const hsize_t count = count_chunks(file, dataset, space);
    std::vector<Hdf5Chunk> chunks;
    for (hsize_t i = 0; i < count; ++i) {
        std::array<hsize_t, H5S_MAX_RANK> first{};
        unsigned mask = 0;
        haddr_t offset = 0;
        hsize_t size = 0;
        check_hdf5(H5Dget_chunk_info(dataset.get(), space.get(), i, first.data(), &mask, &offset, &size), file.path(),
                   "a chunk's place");
        const auto cell = grid.cell(Shape(first.begin(), first.begin() + static_cast<long>(info.shape.size())));
        if (!cell) {
            file.damaged(offset, "the first element of a chunk", fmt::format("chunk {} elsewhere", i));
        }
        chunks.push_back({.cell = *cell, .offset = offset, .size = size, .mask = mask});
        check_chunk(file, info, grid, chunks.back());
    }
    return in_order(std::move(chunks), file);
}

void require_sound_chunk_tree(const Hdf5Bytes& file, const Hdf5Info& info) {
    read_chunk_tree(file, info);
}

}  // namespace stoker
