// Arbitrary bytes as the pages of an LMDB database, of 256 bytes each, so that deep trees are small. Walks must end,
// views must lie within the pages, and the entry after a key must not be before it. The first four bytes are the root,
// the depth, and the key order with the format.
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/formats/sources.h"
#include "stoker/base/error.h"
#include "stoker/formats/lmdb/lmdb_tree.h"

namespace {

using namespace stoker;
using stoker::fuzz::require;

bool within(std::span<const std::byte> pages, const void* begin, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(begin);
    return size == 0 || (first >= pages.data() && size <= pages.size() &&
                         first - pages.data() <= static_cast<std::ptrdiff_t>(pages.size() - size));
}

// All keys in order; empty if the tree is damaged.
std::vector<std::string> walk(const LmdbTree& tree, std::span<const std::byte> pages, bool forward) {
    std::vector<std::string> keys;
    try {
        LmdbTree::Cursor cursor(tree);
        for (auto entry = forward ? cursor.first() : cursor.last(); entry;
             entry = forward ? cursor.next() : cursor.previous()) {
            require(within(pages, entry->key.data(), entry->key.size()));
            require(within(pages, entry->value.data(), entry->value.size()));
            require(keys.size() <= pages.size() / 2);  // an offset each
            keys.emplace_back(entry->key);
        }
    } catch (const Error&) {
        return {};
    }
    return keys;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t kHead = 4;
    if (size < kHead) {
        return 0;
    }
    const std::vector<std::byte> copy(reinterpret_cast<const std::byte*>(data) + kHead,
                                      reinterpret_cast<const std::byte*>(data) + size);
    const LmdbMeta meta{.format = (data[3] & 2) != 0 ? LmdbFormat::v1_0 : LmdbFormat::v0_9,
                        .page_size = 256,
                        .root = data[0] == 0xff ? ~std::uint64_t{0} : data[0] | std::uint64_t{data[1]} << 8,
                        .depth = static_cast<std::uint16_t>(data[2] % 33),
                        .keys_from_end = (data[3] & 1) != 0};
    const LmdbTree tree(copy, meta, "pages");
    const std::vector<std::string> forward = walk(tree, copy, true);
    walk(tree, copy, false);
    for (const std::string& key : {std::string(), std::string("image-"), std::string(300, '\xff')}) {
        try {
            LmdbTree::Cursor cursor(tree);
            if (const auto entry = cursor.at_or_after(key)) {
                require(meta.keys_from_end || entry->key >= key);
                cursor.previous();
            }
        } catch (const Error&) {
        }
    }
    for (const std::string& key : forward) {
        try {
            const auto value = tree.find(key);
            require(!value || within(copy, value->data(), value->size()));
        } catch (const Error&) {
        }
    }
    return 0;
}
