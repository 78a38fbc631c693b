// A descent has exactly as many levels as the meta page says, and keys must ascend from entry to entry. So no damage
// makes a walk endless.
#include "stoker/formats/lmdb/lmdb_tree.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// Before the end of a page's header.
constexpr std::size_t kKindBefore = 6;
constexpr std::size_t kLowerBefore = 4;  // end of the nodes' offsets
constexpr std::size_t kNodeHeader = 8;
constexpr std::uint16_t kBranch = 0x01;
constexpr std::uint16_t kLeaf = 0x02;
constexpr std::uint16_t kKinds = 0x2f;
constexpr const char* kAscending = "keys in ascending order";

// Flags of a node.
constexpr std::uint16_t kOverflow = 0x01;  // the value is on overflow pages
constexpr std::uint16_t kDatabase = 0x02;  // the value describes a named database

template <typename Number>
Number load(const std::byte* from) {
    Number number;
    std::memcpy(&number, from, sizeof number);
    return number;
}

}  // namespace

std::uint64_t LmdbPage::number() const {
    return load<std::uint64_t>(bytes_.data());
}

std::uint16_t LmdbPage::kind() const {
    return load<std::uint16_t>(bytes_.data() + header() - kKindBefore) & kKinds;
}

bool LmdbPage::branch() const {
    return kind() == kBranch;
}

bool LmdbPage::leaf() const {
    return kind() == kLeaf;
}

std::size_t LmdbPage::nodes() const {
    const std::size_t lower = load<std::uint16_t>(bytes_.data() + header() - kLowerBefore) + base();
    return lower >= header() && lower <= bytes_.size() ? (lower - header()) / 2 : 0;
}

std::optional<LmdbPage::Node> LmdbPage::node(std::size_t at) const {
    if (at >= nodes()) {
        return std::nullopt;
    }
    const std::size_t offset = load<std::uint16_t>(bytes_.data() + header() + 2 * at) + base();
    if (offset + kNodeHeader > bytes_.size()) {
        return std::nullopt;
    }
    const std::byte* head = bytes_.data() + offset;
    const std::size_t key_size = load<std::uint16_t>(head + 6);
    const std::size_t end = offset + kNodeHeader + key_size;
    const Node node{.key = {reinterpret_cast<const char*>(head + kNodeHeader), key_size},
                    .low = load<std::uint32_t>(head),
                    .flags = load<std::uint16_t>(head + 4),
                    .value = end + (format_ == LmdbFormat::v0_9 ? 0 : end % 2)};
    return node.value <= bytes_.size() ? std::optional(node) : std::nullopt;
}

LmdbTree::LmdbTree(std::span<const std::byte> pages, const LmdbMeta& meta, std::string path)
    : path_(std::move(path)),
      pages_(pages),
      format_(meta.format),
      page_size_(meta.page_size),
      root_(meta.root),
      depth_(meta.depth),
      from_end_(meta.keys_from_end) {}

bool LmdbTree::empty() const {
    constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
    return root_ == kNoPage;
}

std::span<const std::byte> LmdbTree::page_bytes(std::uint64_t number) const {
    return number < page_count() ? pages_.subspan(number * page_size_, page_size_) : std::span<const std::byte>();
}

std::optional<LmdbPage> LmdbTree::page(std::uint64_t number) const {
    const LmdbPage found(page_bytes(number), format_);
    return !found.bytes().empty() && found.number() == number ? std::optional(found) : std::nullopt;
}

// The header of overflow pages is not checked, since that would read one page from the disk before the value is read.
std::optional<std::span<const std::byte>> LmdbTree::value(const LmdbPage& page, const LmdbPage::Node& node) const {
    const auto rest = page.bytes().subspan(node.value);
    if ((node.flags & kOverflow) == 0) {
        return node.low <= rest.size() ? std::optional(rest.first(node.low)) : std::nullopt;
    }
    const auto first_page = rest.size() < sizeof(std::uint64_t) ? page_count() : load<std::uint64_t>(rest.data());
    if (first_page >= page_count()) {
        return std::nullopt;
    }
    const auto large = pages_.subspan(first_page * page_size_ + page.header());
    return node.low <= large.size() ? std::optional(large.first(node.low)) : std::nullopt;
}

void LmdbTree::fail(std::uint64_t page, const char* expected) const {
    throw DataError(
        {.path = path_,
         .offset = static_cast<std::int64_t>(std::min(page, ~std::uint64_t{0} / 2 / page_size_) * page_size_)},
        {.where = "lmdb",
         .expected = expected,
         .got = fmt::format("damage in page {}", page),
         .hint = "the database is damaged: copy it again"});
}

LmdbPage LmdbTree::checked_page(std::uint64_t number, bool leaf) const {
    const auto found = page(number);
    if (!found || !(leaf ? found->leaf() : found->branch()) || found->nodes() == 0) {
        fail(number, leaf ? "a leaf page of a B-tree" : "a branch page of a B-tree");
    }
    return *found;
}

LmdbPage::Node LmdbTree::checked_node(const LmdbPage& page, std::size_t at) const {
    const auto node = page.node(at);
    if (!node) {
        fail(page.number(), "nodes within their page");
    }
    return *node;
}

LmdbEntry LmdbTree::entry(const LmdbPage& page, std::size_t at) const {
    const auto node = checked_node(page, at);
    if ((node.flags & kDatabase) != 0) {
        throw Unsupported({.where = path_,
                           .expected = "records in the unnamed LMDB database",
                           .got = fmt::format("a named database {:?}", node.key),
                           .hint = "copy its records into the unnamed database, or into a separate file"});
    }
    const auto found = value(page, node);
    if (!found) {
        fail(page.number(), "values within the pages in use");
    }
    return {.key = node.key, .value = *found};
}

// MDB_INTEGERKEY keys are little-endian numbers, so they are compared from the last byte on, like MDB_REVERSEKEY keys.
bool LmdbTree::less(std::string_view key, std::string_view other) const {
    if (!from_end_) {
        return key < other;
    }
    return std::lexicographical_compare(key.rbegin(), key.rend(), other.rbegin(), other.rend(), [](char one, char two) {
        return static_cast<unsigned char>(one) < static_cast<unsigned char>(two);
    });
}

std::size_t LmdbTree::lower_bound(const LmdbPage& page, std::string_view key) const {
    std::size_t begin = page.branch() ? 1 : 0;  // the first node of a branch stores no key
    std::size_t end = page.nodes();
    while (begin < end) {
        const std::size_t middle = begin + (end - begin) / 2;
        if (less(checked_node(page, middle).key, key)) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

// The node of a branch whose subtree holds the key, if the tree does.
std::size_t LmdbTree::child_of(const LmdbPage& page, std::string_view key) const {
    const std::size_t at = lower_bound(page, key);
    return at == 0 || (at < page.nodes() && checked_node(page, at).key == key) ? at : at - 1;
}

std::optional<std::span<const std::byte>> LmdbTree::find(std::string_view key) const {
    if (empty()) {
        return std::nullopt;
    }
    std::uint64_t number = root_;
    for (std::size_t level = 1; level < depth_; ++level) {
        const LmdbPage branch = checked_page(number, false);
        number = checked_node(branch, child_of(branch, key)).page();
    }
    const LmdbPage leaf = checked_page(number, true);
    const std::size_t at = lower_bound(leaf, key);
    if (at == leaf.nodes() || checked_node(leaf, at).key != key) {
        return std::nullopt;
    }
    return entry(leaf, at).value;
}

template <typename Pick>
void LmdbTree::Cursor::descend(std::uint64_t page, Pick pick) {
    while (true) {
        const bool leaf = levels_.size() + 1 >= tree_->depth_;
        const LmdbPage found = tree_->checked_page(page, leaf);
        levels_.push_back({.page = found, .at = pick(found)});
        if (leaf) {
            return;
        }
        page = tree_->checked_node(found, levels_.back().at).page();
    }
}

LmdbEntry LmdbTree::Cursor::entry() const {
    return tree_->entry(levels_.back().page, levels_.back().at);
}

std::optional<LmdbEntry> LmdbTree::Cursor::first() {
    levels_.clear();
    if (tree_->empty()) {
        return std::nullopt;
    }
    descend(tree_->root_, [](const LmdbPage&) { return std::size_t{0}; });
    return entry();
}

std::optional<LmdbEntry> LmdbTree::Cursor::last() {
    levels_.clear();
    if (tree_->empty()) {
        return std::nullopt;
    }
    descend(tree_->root_, [](const LmdbPage& page) { return page.nodes() - 1; });
    return entry();
}

std::optional<LmdbEntry> LmdbTree::Cursor::at_or_after(std::string_view key) {
    levels_.clear();
    if (tree_->empty()) {
        return std::nullopt;
    }
    descend(tree_->root_, [&](const LmdbPage& page) {
        return page.leaf() ? tree_->lower_bound(page, key) : tree_->child_of(page, key);
    });
    Level& leaf = levels_.back();
    if (leaf.at < leaf.page.nodes()) {
        return entry();
    }
    --leaf.at;  // all keys of this leaf are less: step from its last one to the next leaf
    const auto found = next();
    if (found && tree_->less(found->key, key)) {
        tree_->fail(levels_.back().page.number(), kAscending);
    }
    return found;
}

std::optional<LmdbEntry> LmdbTree::Cursor::step(bool forward) {
    const std::string_view from =
        levels_.empty() ? std::string_view() : tree_->checked_node(levels_.back().page, levels_.back().at).key;
    while (!levels_.empty()) {
        Level& level = levels_.back();
        if (forward ? level.at + 1 >= level.page.nodes() : level.at == 0) {
            levels_.pop_back();
            continue;
        }
        forward ? ++level.at : --level.at;
        if (!level.page.leaf()) {
            descend(tree_->checked_node(level.page, level.at).page(),
                    [&](const LmdbPage& page) { return forward ? 0 : page.nodes() - 1; });
        }
        const LmdbEntry found = entry();
        if (!(forward ? tree_->less(from, found.key) : tree_->less(found.key, from))) {
            tree_->fail(levels_.back().page.number(), kAscending);
        }
        return found;
    }
    return std::nullopt;
}

}  // namespace stoker
