// Made-up libraries with the entries that linkers write, and damaged ones.
#include "stoker/monitor/library_search.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "monitor/support.h"

namespace stoker {
namespace {

// A library with these entries in its dynamic section.
std::string library_with(const std::vector<Elf64_Sxword>& tags) {
    Elf64_Ehdr head{};
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_phoff = sizeof head;
    head.e_phentsize = sizeof(Elf64_Phdr);
    head.e_phnum = 2;
    Elf64_Phdr parts[2] = {};
    parts[0].p_type = PT_LOAD;
    parts[1].p_type = PT_DYNAMIC;
    parts[1].p_offset = sizeof head + sizeof parts;
    parts[1].p_filesz = tags.size() * sizeof(Elf64_Dyn);
    std::string text(reinterpret_cast<const char*>(&head), sizeof head);
    text.append(reinterpret_cast<const char*>(parts), sizeof parts);
    for (const Elf64_Sxword tag : tags) {
        Elf64_Dyn entry{};
        entry.d_tag = tag;
        text.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    }
    return text;
}

TEST(LibrarySearch, RpathComesBeforeTheEnvironment) {
    const testing::MadeUpTree tree;
    const auto first = [&](const std::string& bytes) {
        tree.write("lib.so", bytes);
        return environment_comes_first(tree.root() + "/lib.so");
    };
    EXPECT_FALSE(first(library_with({DT_NEEDED, DT_RPATH, DT_NULL})));
    EXPECT_TRUE(first(library_with({DT_NEEDED, DT_RUNPATH, DT_NULL})));
    EXPECT_TRUE(first(library_with({DT_RPATH, DT_RUNPATH, DT_NULL}))) << "with RUNPATH the loader ignores RPATH";
    EXPECT_TRUE(first(library_with({DT_NEEDED, DT_NULL, DT_RPATH}))) << "it names no folder";
}

TEST(LibrarySearch, OtherFilesAreNoLibraries) {
    const testing::MadeUpTree tree;
    const std::string whole = library_with({DT_RUNPATH, DT_NULL});
    for (std::size_t length = 0; length < whole.size(); ++length) {
        tree.write("cut.so", whole.substr(0, length));
        EXPECT_FALSE(environment_comes_first(tree.root() + "/cut.so")) << length;
    }
    EXPECT_FALSE(environment_comes_first(tree.root() + "/absent.so"));
}

}  // namespace
}  // namespace stoker
