// Keys that are not where they should be are left out; callers then search the tree.
#include "stoker/formats/lmdb/lmdb_leaves.h"

#include <algorithm>
#include <bit>

#include "stoker/base/prefetch.h"

namespace stoker {

LmdbLeaves::LmdbLeaves(const LmdbTree& tree, const LmdbKeys& keys) : tree_(tree) {
    const auto root = keys.sequential() ? tree.page(tree.root()) : std::nullopt;
    std::uint64_t nodes = tree.page_count();  // a sound tree has each page once
    if (!root || !walk(*root, tree.depth(), {}, keys, nodes) || leaves_.empty()) {
        leaves_.clear();
        return;
    }
    index(keys.size());
}

// Collects the leaves below a branch, in order. Only the first child of each branch is read, which shows whether the
// children are leaves. A branch's first node stores no key: `first_key` is its parent's. `depth`, the levels from
// the branch down, and `nodes`, how many may be visited, end the walk of a damaged tree.
bool LmdbLeaves::walk(const LmdbPage& branch, std::size_t depth, std::string_view first_key, const LmdbKeys& keys,
                      std::uint64_t& nodes) {
    if (!branch.branch() || depth == 0) {
        return false;
    }
    bool leaves = false;
    for (std::size_t at = 0; at < branch.nodes(); ++at) {
        const auto node = branch.node(at);
        if (!node || nodes-- == 0) {
            return false;
        }
        const auto below = at == 0 || !leaves ? tree_.page(node->page()) : std::nullopt;
        leaves = at == 0 ? below && below->leaf() : leaves;  // all children of a branch are of one kind
        const std::string_view key = at == 0 ? first_key : node->key;
        if (!leaves) {
            if (!below || !walk(*below, depth - 1, key, keys, nodes)) {
                return false;
            }
            continue;
        }
        // The tree's first leaf is reached without a key, and a branch may hold a key that was removed from the leaf.
        const std::int64_t first = key.empty() ? -1 : keys.index_in_sequence(key).value_or(-1);
        const std::int64_t least = leaves_.empty() ? 0 : leaves_.back().first;
        if (first >= least) {
            leaves_.push_back({.first = first, .page = node->page()});
        } else if (leaves_.empty() || leaves_.back().page != 0) {
            leaves_.push_back({.first = least, .page = 0});
        }
    }
    return true;
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

// liblmdb fills a page from its end. Values are assumed to be of about the same size.
void LmdbLeaves::prefetch(std::int64_t index) const {
    if (leaves_.empty()) {
        return;
    }
    const std::size_t leaf = leaf_of(index);
    const auto page = tree_.page_bytes(leaves_[leaf].page);
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
    const auto page = tree_.page(leaves_[leaf].page);
    const auto at = static_cast<std::size_t>(index - leaves_[leaf].first);
    if (!page || !page->leaf() || index < leaves_[leaf].first || at >= page->nodes()) {
        return std::nullopt;
    }
    const auto node = page->node(at);
    return node && node->key == key ? tree_.value(*page, *node) : std::nullopt;
}

}  // namespace stoker
