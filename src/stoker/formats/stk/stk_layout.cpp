// Offsets of the index's columns, for writer and reader.
#include "stoker/formats/stk/stk_layout.h"

#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

void check_stk_version(std::uint64_t version, const std::string& path) {
    if (version != kStkVersion) {
        throw Unsupported({.where = path,
                           .expected = fmt::format("version {} of the stk format", kStkVersion),
                           .got = fmt::format("version {}", version),
                           .hint = "read it with the release of Stoker that wrote it, or pack again"});
    }
}

std::string stk_shard_name(std::uint64_t shard) {
    return fmt::format("shard-{:06}.stk", shard);
}

std::uint64_t stk_entry_size(const StkField& field) {
    switch (field.kind) {
        case StkKind::image:
            return sizeof(StkImageEntry);
        case StkKind::label:
        case StkKind::integer:
        case StkKind::number:
            return sizeof(std::uint64_t);
        case StkKind::bytes:
            return sizeof(StkPlace);
        case StkKind::tensor:
            return sizeof(StkPlace) + static_cast<std::uint64_t>(field.rank) * sizeof(std::int64_t);
    }
    return 0;
}

StkLayout stk_layout(const StkSchema& schema, std::uint64_t samples) {
    StkLayout layout;
    std::uint64_t at = stk_align(samples * sizeof(std::uint64_t));
    for (const StkField& field : schema.fields) {
        layout.fields.push_back(at);
        at = stk_align(at + samples * stk_entry_size(field));
    }
    layout.key_text = at;
    return layout;
}

}  // namespace stoker
