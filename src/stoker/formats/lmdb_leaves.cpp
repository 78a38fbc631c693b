// Layout of LMDB 0.9: a page is a header of 16 bytes, the offsets of its nodes (16 bits each, in the order of the keys)
// and the nodes. A node is a header of 8 bytes, the key, and in a leaf the value, or the number of the page on which
// it begins behind a header of its own. A node of a branch has a page's number in its header.
#include "stoker/formats/lmdb_leaves.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "stoker/base/prefetch.h"
#include "stoker/formats/lmdb_meta.h"

namespace stoker {
namespace {

constexpr std::size_t kPageHeader = 16;
constexpr std::size_t kNodeHeader = 8;
constexpr std::uint16_t kBranch = 0x01;
constexpr std::uint16_t kLeaf = 0x02;
constexpr std::uint16_t kElsewhere = 0x01;  // of a node: the value has pages of its own

template <typename Number>
Number load(const std::byte* from) {
    Number number;
    std::memcpy(&number, from, sizeof number);
    return number;
}

struct Node {
    std::uint16_t low = 0;
    std::uint16_t middle = 0;
    std::uint16_t flags = 0;
    std::string_view key;
    std::size_t end = 0;  // within the page

    // A leaf's.
    std::uint32_t value_size() const { return static_cast<std::uint32_t>(middle) << 16 | low; }
    // A branch's.
    std::uint64_t page() const { return static_cast<std::uint64_t>(flags) << 32 | value_size(); }
};

std::uint16_t kind_of(std::span<const std::byte> page) {
    return load<std::uint16_t>(page.data() + 10);
}

std::size_t nodes_in(std::span<const std::byte> page) {
    const std::size_t lower = load<std::uint16_t>(page.data() + 12);
    return lower >= kPageHeader && lower <= page.size() ? (lower - kPageHeader) / 2 : 0;
}

// Node `at`, below nodes_in(page), if it lies within the page.
std::optional<Node> node_at(std::span<const std::byte> page, std::size_t at) {
    const std::size_t offset = load<std::uint16_t>(page.data() + kPageHeader + 2 * at);
    if (offset + kNodeHeader > page.size()) {
        return std::nullopt;
    }
    const std::byte* head = page.data() + offset;
    const std::size_t key_size = load<std::uint16_t>(head + 6);
    Node node{.low = load<std::uint16_t>(head),
              .middle = load<std::uint16_t>(head + 2),
              .flags = load<std::uint16_t>(head + 4),
              .key = {reinterpret_cast<const char*>(head + kNodeHeader), key_size},
              .end = offset + kNodeHeader + key_size};
    return node.end <= page.size() ? std::optional(node) : std::nullopt;
}

}  // namespace

LmdbLeaves::LmdbLeaves(const LmdbSnapshot& snapshot, const LmdbKeys& keys) : file_(snapshot.mapped()) {
    const auto root = snapshot.root();
    constexpr int kDeepest = 32;
    if (!keys.row() || !root || file_.empty()) {
        return;
    }
    page_size_ = root->page_size;
    if (!walk(root->page, kDeepest, {}, keys) || leaves_.empty()) {
        leaves_.clear();
        return;
    }
    index(keys.size());
}

std::span<const std::byte> LmdbLeaves::page_at(std::uint64_t page) const {
    return page < file_.size() / page_size_ ? file_.subspan(page * page_size_, page_size_)
                                            : std::span<const std::byte>();
}

// Leaves of the row, in order. A branch's first node has no key of its own, it begins with `first_key`. The keys count
// up from one to the next, so that no page is taken twice.
bool LmdbLeaves::walk(std::uint64_t number, int depth, std::string_view first_key, const LmdbKeys& keys) {
    const auto page = page_at(number);
    if (page.empty() || depth == 0 || kind_of(page) != kBranch) {
        return false;
    }
    const std::size_t count = nodes_in(page);
    bool leaves = false;
    for (std::size_t at = 0; at < count; ++at) {
        const auto node = node_at(page, at);
        const auto below = node ? page_at(node->page()) : std::span<const std::byte>();
        if (below.empty()) {
            return false;
        }
        leaves = at == 0 ? kind_of(below) == kLeaf : leaves;  // all of a branch are of one kind
        const std::string_view key = at == 0 ? first_key : node->key;
        if (!leaves) {
            if (!walk(node->page(), depth - 1, key, keys)) {
                return false;
            }
            continue;
        }
        // The tree's first leaf has no key, and a key that has been removed may still be there: liblmdb is asked then.
        const auto first = key.empty() ? std::nullopt : keys.index_in_row(key);
        const std::int64_t least = leaves_.empty() ? 0 : leaves_.back().first;
        if (first && *first >= least) {
            leaves_.push_back({.first = *first, .page = node->page()});
        } else if (leaves_.empty() || leaves_.back().page != 0) {
            leaves_.push_back({.first = least, .page = 0});
        }
    }
    return leaves_.size() <= file_.size() / page_size_;
}

void LmdbLeaves::index(std::int64_t keys) {
    const std::uint64_t each = std::max<std::uint64_t>(static_cast<std::uint64_t>(keys) / leaves_.size(), 1);
    block_bits_ = static_cast<unsigned>(std::bit_width(each)) - 1;
    leaves_.push_back({.first = keys, .page = 0});
    std::uint32_t leaf = 0;
    for (std::int64_t first = 0; first < keys; first += std::int64_t{1} << block_bits_) {
        while (leaf + 2 < leaves_.size() && leaves_[leaf + 1].first <= first) {
            ++leaf;
        }
        blocks_.push_back(leaf);
    }
}

std::size_t LmdbLeaves::leaf_of(std::int64_t index) const {
    std::size_t leaf = blocks_[static_cast<std::size_t>(index >> block_bits_)];
    while (leaves_[leaf + 1].first <= index) {
        ++leaf;
    }
    return leaf;
}

// liblmdb fills a page from its end; with values of about one size, each has an equal part of it.
void LmdbLeaves::prefetch(std::int64_t index) const {
    if (leaves_.empty()) {
        return;
    }
    const std::size_t leaf = leaf_of(index);
    const auto page = page_at(leaves_[leaf].page);
    const auto at = static_cast<std::size_t>(index - leaves_[leaf].first);
    const auto nodes = static_cast<std::size_t>(leaves_[leaf + 1].first - leaves_[leaf].first);
    if (page.empty() || index < leaves_[leaf].first) {
        return;
    }
    const std::size_t each = page.size() / nodes;
    prefetch_memory(page.data(), 1);
    prefetch_memory(page.data() + page.size() - std::min((at + 1) * each, page.size()), each);
}

std::optional<std::span<const std::byte>> LmdbLeaves::find(std::int64_t index, std::string_view key) const {
    if (leaves_.empty()) {
        return std::nullopt;
    }
    const std::size_t leaf = leaf_of(index);
    const auto page = page_at(leaves_[leaf].page);
    const auto at = static_cast<std::size_t>(index - leaves_[leaf].first);
    if (page.empty() || kind_of(page) != kLeaf || index < leaves_[leaf].first || at >= nodes_in(page)) {
        return std::nullopt;
    }
    const auto node = node_at(page, at);
    if (!node || node->key != key || (node->flags & ~kElsewhere) != 0) {
        return std::nullopt;
    }
    if ((node->flags & kElsewhere) == 0) {
        return node->value_size() <= page.size() - node->end
                   ? std::optional(page.subspan(node->end, node->value_size()))
                   : std::nullopt;
    }
    if (page.size() - node->end < sizeof(std::uint64_t)) {
        return std::nullopt;
    }
    const auto first_page = load<std::uint64_t>(page.data() + node->end);
    if (first_page >= file_.size() / page_size_) {
        return std::nullopt;
    }
    const auto rest = file_.subspan(first_page * page_size_ + kPageHeader);
    return node->value_size() <= rest.size() ? std::optional(rest.first(node->value_size())) : std::nullopt;
}

}  // namespace stoker
