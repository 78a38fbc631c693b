// The dynamic section of an ELF file (elf.h) has an entry DT_RPATH or DT_RUNPATH; with both, DT_RPATH is ignored.
#include "stoker/monitor/library_search.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

// The item at `offset`; empty if the file is too short.
template <typename Item>
std::optional<Item> item_at(std::span<const std::byte> file, std::uint64_t offset) {
    if (offset > file.size() || sizeof(Item) > file.size() - offset) {
        return std::nullopt;
    }
    Item item;
    std::memcpy(&item, file.data() + offset, sizeof item);
    return item;
}

// The bytes of the dynamic section; none if it is not whole.
std::span<const std::byte> dynamic_section(std::span<const std::byte> file) {
    const auto head = item_at<Elf64_Ehdr>(file, 0);
    if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_phoff > file.size()) {
        return {};
    }
    for (std::uint64_t i = 0; i < head->e_phnum; ++i) {
        const auto part = item_at<Elf64_Phdr>(file, head->e_phoff + i * sizeof(Elf64_Phdr));
        if (!part) {
            return {};
        }
        if (part->p_type == PT_DYNAMIC) {
            const bool whole = part->p_offset <= file.size() && part->p_filesz <= file.size() - part->p_offset;
            return whole ? file.subspan(part->p_offset, part->p_filesz) : file.first(0);
        }
    }
    return {};
}

}  // namespace

bool environment_comes_first(std::span<const std::byte> library) {
    const auto section = dynamic_section(library);
    bool names_first = false;  // by RPATH
    std::uint64_t at = 0;
    for (auto entry = item_at<Elf64_Dyn>(section, at); entry && entry->d_tag != DT_NULL;
         entry = item_at<Elf64_Dyn>(section, at += sizeof(Elf64_Dyn))) {
        if (entry->d_tag == DT_RUNPATH) {
            return true;
        }
        names_first = names_first || entry->d_tag == DT_RPATH;
    }
    return !section.empty() && !names_first;
}

bool environment_comes_first(const std::filesystem::path& library) {
    try {
        return environment_comes_first(MappedFile(library).bytes());
    } catch (const IoError&) {  // no such file
        return false;
    }
}

}  // namespace stoker
