// A B-tree node of a group is "TREE", type 0, its level, the number of children and two siblings, then keys and
// children in turn. A leaf's children are symbol table nodes: "SNOD", a version, the number of entries, and entries
// with the address of an object header.
#include "stoker/formats/hdf5/hdf5_groups.h"

#include <fmt/format.h>
#include <unordered_set>
#include <vector>

namespace stoker {
namespace {

constexpr const char* kNode = "a B-tree node of a group";
constexpr const char* kSymbols = "a symbol table node";

class GroupWalk {
  public:
    explicit GroupWalk(const Hdf5Bytes& file) : file_(file) {}

    // Several links may lead to one object, and a link may lead back to a group that contains it.
    void add(std::uint64_t header) {
        if (!file_.is_undefined(header) && headers_.insert(header).second) {
            pending_.push_back(header);
        }
    }

    void run() {
        while (!pending_.empty()) {
            const std::uint64_t header = pending_.back();
            pending_.pop_back();
            const Hdf5GroupLinks links = read_group_links(file_, header);
            for (const std::uint64_t linked : links.headers) {
                add(linked);
            }
            if (links.tree && !file_.is_undefined(*links.tree)) {
                visit_node(*links.tree, -1);
            }
        }
    }

  private:
    // Recursion is at most 256 deep, because a child must be one level below its parent and the level is one byte.
    void visit_node(std::uint64_t address, int level) {
        const std::uint64_t offset = file_.offset_of(address, kNode);
        if (!nodes_.insert(offset).second) {
            file_.damaged(offset, "each B-tree node once", "the same node twice");
        }
        Hdf5Cursor cursor(file_, offset, file_.size(), kNode);
        if (cursor.text(4) != "TREE" || cursor.number(1) != 0) {
            file_.damaged(offset, kNode, file_.shown(offset, 5));
        }
        const int found = static_cast<int>(cursor.number(1));
        if (level >= 0 && found != level) {
            file_.damaged(offset, fmt::format("a B-tree node of level {}, one below its parent", level),
                          fmt::format("level {}", found));
        }
        const std::uint64_t children = cursor.number(2);
        cursor.address();
        cursor.address();
        for (std::uint64_t i = 0; i < children; ++i) {
            cursor.length();  // key: the offset of the child's first name
            const std::uint64_t child = cursor.address();
            found > 0 ? visit_node(child, found - 1) : visit_symbols(child);
        }
    }

    void visit_symbols(std::uint64_t address) {
        constexpr std::uint64_t kSoftLink = 2;
        const std::uint64_t offset = file_.offset_of(address, kSymbols);
        Hdf5Cursor cursor(file_, offset, file_.size(), kSymbols);
        if (cursor.text(4) != "SNOD" || cursor.number(1) != 1) {
            file_.damaged(offset, kSymbols, file_.shown(offset, 5));
        }
        cursor.skip(1);
        const std::uint64_t entries = cursor.number(2);
        for (std::uint64_t i = 0; i < entries; ++i) {
            cursor.address();  // of the name
            const std::uint64_t header = cursor.address();
            const std::uint64_t kind = cursor.number(4);
            cursor.skip(4 + 16);
            if (kind != kSoftLink) {
                add(header);
            }
        }
    }

    const Hdf5Bytes& file_;
    std::unordered_set<std::uint64_t> headers_;  // of objects seen so far
    std::unordered_set<std::uint64_t> nodes_;
    std::vector<std::uint64_t> pending_;
};

}  // namespace

void require_sound_groups(const Hdf5Bytes& file, std::uint64_t root) {
    GroupWalk walk(file);
    walk.add(root);
    walk.run();
}

}  // namespace stoker
