// Arbitrary bytes as an HDF5 file, in what is read of it without the library: object headers, groups, the tree of
// chunks, the global heap and filters. The first four bytes are the address of a header and the bytes of an address.
#include <array>
#include <filesystem>
#include <string>

#include "fuzz/formats/sources.h"
#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_groups.h"
#include "stoker/formats/hdf5/hdf5_index.h"
#include "stoker/formats/hdf5/hdf5_info.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

constexpr std::size_t kHead = 4;
constexpr std::uint64_t kChunkBytes = 48;

void require_within(const Hdf5Bytes& file, const ByteRange& range) {
    require(range.offset <= file.size() && range.size <= file.size() - range.offset);
    touch(file.view(range.offset, range.size, "a range"));
}

void read_header(const Hdf5Bytes& file, std::uint64_t header) {
    succeeds([&] { find_chunk_tree(file, header); });
    succeeds([&] { require_within(file, find_compact_data(file, header)); });
    for (const char* name : {"classes", ""}) {
        succeeds([&] {
            if (const auto range = find_attribute(file, header, name)) {
                require_within(file, *range);
            }
        });
    }
    succeeds([&] { require_sound_groups(file, header); });
    succeeds([&] {
        Hdf5Info info{.name = "images", .shape = {8, 6, 4}, .layout = Hdf5Layout::chunked, .header = header};
        info.chunk = {2, 6, 4};
        require_sound_chunk_tree(file, info);
    });
}

// The first bytes of the file as a record that refers to a sequence of the heap.
void read_heap(const Hdf5Bytes& file) {
    const auto record_bytes = static_cast<std::uint64_t>(8 + file.superblock().address_bytes);
    if (file.size() < record_bytes) {
        return;
    }
    const auto record = file.view(0, record_bytes, "a record");
    succeeds([&] {
        Buffer storage;
        const auto sequence = read_sequence(file, record, storage);
        require(sequence.size() == little_endian(record.first(4)));
        touch(sequence);
    });
}

void undo(const Hdf5Bytes& file, std::uint32_t mask) {
    const std::array<Hdf5Filter, 3> filters = {Hdf5Filter{.id = 2, .name = "shuffle", .first_value = 4},
                                               Hdf5Filter{.id = 1, .name = "deflate"},
                                               Hdf5Filter{.id = 3, .name = "fletcher32"}};
    for (std::size_t first = 0; first < filters.size(); ++first) {
        succeeds([&] {
            const std::span<const Hdf5Filter> used = std::span(filters).subspan(first);
            const Buffer chunk = undo_filters(used, mask, file.view(0, file.size(), "a chunk"), kChunkBytes);
            require(chunk.size() == kChunkBytes);
        });
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Scratch scratch;
    if (size <= kHead) {
        return 0;
    }
    Hdf5Bytes file(scratch.write("a.h5", as_input(data, size).subspan(kHead)));
    constexpr std::array<int, 4> kBytes = {8, 8, 4, 2};
    const int bytes = kBytes[data[2] % kBytes.size()];
    file.set_superblock({.base = data[3], .address_bytes = bytes, .length_bytes = bytes});
    read_header(file, data[0] | std::uint64_t{data[1]} << 8);
    read_heap(file);
    undo(file, data[0]);
    return 0;
}
