// Arbitrary bytes as an HDF5 file, in what is read of it without the library: object headers, groups, the tree of
// chunks, the global heap and filters. The first four bytes are an address, the size of addresses, and the user block.
#include <array>
#include <filesystem>
#include <string>
#include <vector>

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
        Hdf5Info info;
        info.shape = {8, 6, 4};
        info.layout = Hdf5Layout::chunked;
        info.header = header;
        info.chunk = {2, 6, 4};
        require_sound_chunk_tree(file, info);
    });
}

// A record of a few bytes in the collection of the heap at `address`; one without an address is empty.
void read_heap(const Hdf5Bytes& file, std::uint64_t address) {
    constexpr std::byte kLength{5};
    std::vector<std::byte> record = {kLength, std::byte{0}, std::byte{0}, std::byte{0}};
    for (int i = 0; i < file.superblock().address_bytes; ++i) {
        record.push_back(std::byte(address >> (8 * i) & 0xff));
    }
    record.insert(record.end(), {std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}});
    succeeds([&] {
        Buffer storage;
        const auto sequence = read_sequence(file, record, storage);
        require(sequence.size() == std::to_integer<std::size_t>(kLength) || (sequence.empty() && address == 0));
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
    const std::uint64_t address = data[0] | std::uint64_t{data[1]} << 8;
    read_header(file, address);
    read_heap(file, address);
    undo(file, data[0]);
    return 0;
}
