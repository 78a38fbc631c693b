// A tensor in the pickle is a storage's key, an offset, a shape and strides. None of them can be trusted: each is
// checked against the storage's size, and the memory for copies is bounded by the file's size.
#include "stoker/formats/arrays/pt.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

constexpr std::string_view kStructure = "data.pkl";
constexpr std::size_t kMaxArrays = 4096;
constexpr std::size_t kMaxName = 1000;
constexpr std::uint64_t kMaxCopies = 4;  // bytes of copies, in multiples of the file's size

// The first bytes of files of torch before 1.6: a pickle of protocol 2 with an integer of ten bytes.
constexpr std::array<unsigned char, 4> kLegacy = {0x80, 0x02, 0x8a, 0x0a};

bool is_legacy(std::span<const std::byte> bytes) {
    return bytes.size() >= kLegacy.size() && std::memcmp(bytes.data(), kLegacy.data(), kLegacy.size()) == 0;
}

// Returns `path`. Throws Unsupported if the file is not a zip file.
std::filesystem::path checked_zip(const std::filesystem::path& path) {
    std::array<std::byte, 4> head{};
    const File file(path);
    const std::uint64_t size = std::min<std::uint64_t>(file.info().size, head.size());
    file.read(0, std::span(head).first(size));
    if (!is_zip(std::span(head).first(size))) {
        throw Unsupported(
            {.where = path.string(),
             .expected = "a zip file, as torch.save writes it",
             .got = is_legacy(head) ? "the format of torch before 1.6" : describe_bytes(std::span(head).first(size)),
             .hint = "load and save it again with a recent torch"});
    }
    return path;
}

// The number of storage elements from the tensor's first to its last; empty if that overflows.
std::optional<std::uint64_t> extent(const PickledTensor& tensor) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
        const auto steps = static_cast<std::uint64_t>(tensor.shape[i]) - 1;
        const auto stride = static_cast<std::uint64_t>(tensor.strides[i]);
        if (steps != 0 && stride > (kMost - last) / steps) {
            return std::nullopt;
        }
        last += steps * stride;
    }
    return last + 1;
}

bool is_contiguous(const PickledTensor& tensor) {
    std::int64_t expected = 1;
    for (std::size_t i = tensor.shape.size(); i-- > 0;) {
        if (tensor.shape[i] != 1 && tensor.strides[i] != expected) {
            return false;
        }
        expected *= tensor.shape[i];
    }
    return true;
}

// Copies the elements in C order. The offset may wrap around modulo 2^64 while an index is reset; the sum is still
// right.
void gather(const PickledTensor& tensor, std::span<const std::byte> from, std::span<std::byte> to) {
    const auto item = static_cast<std::size_t>(tensor.type.item_size);
    const std::size_t sides = tensor.shape.size();
    std::vector<std::size_t> steps(sides);
    for (std::size_t i = 0; i < sides; ++i) {
        steps[i] = tensor.shape[i] == 1 ? 0 : static_cast<std::size_t>(tensor.strides[i]) * item;
    }
    std::vector<std::int64_t> index;
    index.resize(sides);
    std::size_t at = 0;
    for (std::size_t done = 0; done < to.size(); done += item) {
        std::memcpy(to.data() + done, from.data() + at, item);
        for (std::size_t i = sides; i-- > 0;) {
            at += steps[i];
            if (++index[i] < tensor.shape[i]) {
                break;
            }
            at -= static_cast<std::size_t>(tensor.shape[i]) * steps[i];
            index[i] = 0;
        }
    }
}

// The common kind of a list's entries; empty if kinds differ or the list is empty. Booleans count as integers.
std::optional<PickleValue::Kind> kind_of_entries(const PickleValue& list) {
    const auto kind_of = [&](std::size_t i) {
        const auto kind = list[i].kind();
        return kind == PickleValue::Kind::boolean ? PickleValue::Kind::integer : kind;
    };
    for (std::size_t i = 1; i < list.size(); ++i) {
        if (kind_of(i) != kind_of(0)) {
            return std::nullopt;
        }
    }
    return list.size() == 0 ? std::nullopt : std::optional(kind_of(0));
}

// The dict of tensors in what a training script saved.
PickleValue state_dict_in(const PickleValue& root) {
    for (const char* name : {"state_dict", "model_state_dict", "model"}) {
        if (const auto inner = root.find(name); inner && inner->kind() == PickleValue::Kind::dict) {
            return *inner;
        }
    }
    return root;
}

// For messages about an object in the place of tensors.
std::string object_hint(bool state_dict) {
    return state_dict ? "save model.state_dict() alone" : "pickles are never executed: save its tensors";
}

// The name of a dict's entry. A long one is cut: it is refused later.
std::string name_of(const PickleValue& key) {
    return key.kind() == PickleValue::Kind::integer ? std::to_string(key.integer())
                                                    : std::string(key.text().substr(0, kMaxName + 1));
}

bool is_container(const PickleValue& value) {
    using Kind = PickleValue::Kind;
    const Kind kind = value.kind();
    return kind == Kind::list || kind == Kind::tuple || kind == Kind::dict;
}

}  // namespace

PtFile::PtFile(const std::filesystem::path& path, std::span<const std::string> wanted)
    : PtFile(path, wanted.empty(), wanted) {}

PtFile::PtFile(const std::filesystem::path& path, bool all, std::span<const std::string> wanted)
    : path_(path.string()),
      zip_(checked_zip(path)),
      pickle_(path.string(), OtherObjects::left_out),
      all_(all),
      wanted_(wanted.begin(), wanted.end()) {
    with_memory_place(path_, [&] { with_place({.path = path_}, [&] { read(); }); });
}

PtFile::PtFile(std::span<const std::byte> bytes) : zip_(bytes), pickle_("pickle", OtherObjects::left_out) {
    read();
}

PtFile::PtFile(const std::filesystem::path& path, StateDict /*tag*/)
    : path_(path.string()), zip_(checked_zip(path)), pickle_(path.string(), OtherObjects::left_out), state_dict_(true) {
    with_place({.path = path_}, [&] { read(); });
}

PtFile::PtFile(std::span<const std::byte> bytes, StateDict /*tag*/)
    : zip_(bytes), pickle_("pickle", OtherObjects::left_out), state_dict_(true) {
    read();
}

std::vector<std::string> PtFile::names(const std::filesystem::path& path) {
    return PtFile(path, false, {}).names_;
}

void PtFile::refuse(std::string expected, std::string got) const {
    throw DataError({.path = path_}, {.where = "pt", .expected = std::move(expected), .got = std::move(got)});
}

void PtFile::unsupported(std::string expected, std::string got, std::string hint) const {
    throw Unsupported({.where = path_.empty() ? "pt" : path_,
                       .expected = std::move(expected),
                       .got = std::move(got),
                       .hint = std::move(hint)});
}

void PtFile::read() {
    const auto is_structure = [](const ZipEntry& entry) {
        const std::size_t slash = entry.name.find('/');
        return slash != std::string::npos && std::string_view(entry.name).substr(slash + 1) == kStructure;
    };
    const auto found = std::ranges::find_if(zip_.entries(), is_structure);
    if (found == zip_.entries().end()) {
        refuse("a member data.pkl, as torch.save writes it", fmt::format("{} other members", zip_.entries().size()));
    }
    folder_ = found->name.substr(0, found->name.size() - kStructure.size());
    read_byte_order();
    with_place({.path = path_, .key = std::string(kStructure)}, [&] { read_structure(*found); });
}

void PtFile::read_byte_order() {
    const ZipEntry* entry = zip_.find(folder_ + "byteorder");
    if (entry == nullptr) {
        return;  // torch before 2.0: little-endian
    }
    const auto bytes = content(*entry).bytes;
    const std::string_view order(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 16));
    big_endian_ = order == "big";
    if (!big_endian_ && order != "little") {
        refuse("little or big as byte order", "another text");
    }
}

void PtFile::read_structure(const ZipEntry& member) {
    PickleValue root = pickle_.read(content(member).bytes);
    using Kind = PickleValue::Kind;
    if (root.kind() == Kind::other) {
        unsupported("tensors, or one dict, list or tuple of tensors", root.describe(), object_hint(state_dict_));
    }
    if (state_dict_) {
        if (root.kind() != Kind::dict) {
            refuse("a state_dict", root.describe());
        }
        root = state_dict_in(root);
    }
    if (root.kind() == Kind::tensor || root.kind() == Kind::array) {
        add("", root);
    } else if (root.kind() == Kind::dict) {
        for (std::size_t i = 0; i < root.size(); ++i) {
            add(name_of(root.key(i)), root[i]);
        }
    } else if (root.kind() == Kind::list || root.kind() == Kind::tuple) {
        for (std::size_t i = 0; i < root.size(); ++i) {
            add(std::to_string(i), root[i]);
        }
    }
    if (names_.empty()) {
        for (std::size_t i = 0; i < (is_container(root) ? root.size() : 0); ++i) {
            if (root[i].kind() == Kind::other || (state_dict_ && is_container(root[i]))) {
                const std::string name = root.kind() == Kind::dict ? name_of(root.key(i)) : std::to_string(i);
                unsupported("tensors", fmt::format("{} under {:?}", root[i].describe(), name),
                            object_hint(state_dict_));
            }
        }
        refuse("a tensor, or a dict, list or tuple of tensors", root.describe());
    }
    check_unique(names_, "pt");
}

// Bounds the work, since a small pickle may refer to one list or one long text many times.
void PtFile::add(std::string name, const PickleValue& value) {
    using Kind = PickleValue::Kind;
    scanned_ += is_container(value) ? value.size() : 0;
    if (name.size() > kMaxName || scanned_ > zip_.bytes().size()) {
        unsupported("short names, and each list once", "a long name, or one list many times", "");
    }
    const Kind kind = value.kind();
    const auto entries = kind == Kind::list || kind == Kind::tuple ? kind_of_entries(value) : std::nullopt;
    if (state_dict_ && kind != Kind::tensor) {
        return;  // such as an optimizer, or the number of the epoch
    }
    if (kind != Kind::tensor && kind != Kind::array && entries != Kind::integer && entries != Kind::text) {
        check_nesting(name, value);
        return;
    }
    if (names_.size() == kMaxArrays) {
        unsupported(fmt::format("at most {} tensors", kMaxArrays), "more", "stack the samples into one tensor");
    }
    names_.push_back(name);
    if (!all_ && std::ranges::find(wanted_, name) == wanted_.end()) {
        return;
    }
    if (kind == Kind::tensor) {
        add_tensor(std::move(name), value.tensor());
    } else if (kind == Kind::array) {
        ArrayView array = value.array();
        array.name = std::move(name);
        arrays_.push_back(std::move(array));
    } else if (entries == Kind::integer) {
        add_integers(std::move(name), value);
    } else {
        add_texts(std::move(name), value);
    }
}

// Throws for containers or tensors inside `value`. Other values, such as settings, are skipped.
void PtFile::check_nesting(const std::string& name, const PickleValue& value) const {
    using Kind = PickleValue::Kind;
    for (std::size_t i = 0; i < (is_container(value) ? value.size() : 0); ++i) {
        const PickleValue inner = value[i];
        if (is_container(inner) || inner.kind() == Kind::tensor || inner.kind() == Kind::array) {
            unsupported("tensors, or one dict, list or tuple of tensors",
                        fmt::format("a {} in the {} under {:?}", inner.describe(), value.describe(), name),
                        "stack the samples into one tensor: {\"images\": images, \"labels\": labels}");
        }
    }
}

void PtFile::add_tensor(std::string name, const PickledTensor& tensor) {
    ArrayView array{.name = std::move(name), .type = tensor.type, .shape = tensor.shape, .bytes = {}};
    array.type.big_endian = big_endian_ && array.type.item_size > 1;
    const std::uint64_t size = checked_array_bytes(array.type, array.shape);
    const Content from = storage(tensor.storage);
    const auto item = static_cast<std::uint64_t>(array.type.item_size);
    const std::uint64_t elements = from.bytes.size() / item;
    const auto offset = static_cast<std::uint64_t>(tensor.offset);
    const auto needed = size == 0 ? std::optional<std::uint64_t>(0) : extent(tensor);
    if (tensor.offset < 0 || !needed || offset > elements || *needed > elements - offset) {
        refuse(fmt::format("tensor {:?} within the {} elements of its storage", array.name, elements),
               fmt::format("({}) from element {} on", fmt::join(tensor.shape, ", "), tensor.offset));
    }
    if (size == 0 || is_contiguous(tensor)) {
        array.bytes = from.bytes.subspan(offset * item, size);
        array.file = from.entry != nullptr ? zip_.file() : nullptr;
        array.offset = array.file != nullptr ? from.entry->offset + offset * item : 0;
    } else if (size / item > *needed) {
        unsupported("tensors that store each element once",
                    fmt::format("{:?}, whose elements share memory", array.name), "save its clone()");
    } else {
        const auto to = new_copy(array.name, size);
        gather(tensor, from.bytes.subspan(offset * item), to);
        array.bytes = to;
    }
    arrays_.push_back(std::move(array));
}

void PtFile::add_integers(std::string name, const PickleValue& list) {
    const auto to = new_copy(name, list.size() * sizeof(std::int64_t));
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::int64_t value = list[i].integer();
        std::memcpy(to.data() + i * sizeof value, &value, sizeof value);
    }
    arrays_.push_back({.name = std::move(name),
                       .type = {.kind = ArrayKind::signed_integer, .item_size = sizeof(std::int64_t)},
                       .shape = {static_cast<std::int64_t>(list.size())},
                       .bytes = to});
}

void PtFile::add_texts(std::string name, const PickleValue& list) {
    require_memory(list.size() * sizeof(std::string), name);
    std::vector<std::string>& texts = texts_[std::move(name)];
    for (std::size_t i = 0; i < list.size(); ++i) {
        text_bytes_ += list[i].text().size();
        if (text_bytes_ > zip_.bytes().size()) {
            unsupported("each text once", "one text many times", "");
        }
        texts.emplace_back(list[i].text());
    }
}

PtFile::Content PtFile::storage(std::string_view key) {
    const std::string name = fmt::format("{}data/{}", folder_, key);
    const ZipEntry* entry = zip_.find(name);
    if (entry == nullptr) {
        refuse(fmt::format("a member {:?}", name), "none");
    }
    return content(*entry);
}

// torch stores members uncompressed, but another zip program may have repacked the file.
PtFile::Content PtFile::content(const ZipEntry& entry) {
    if (entry.method == ZipEntry::stored) {
        return {.bytes = zip_.stored(entry), .entry = &entry};
    }
    auto known = inflated_.find(&entry);
    if (known == inflated_.end()) {
        known = inflated_.emplace(&entry, zip_.inflate(entry)).first;
    }
    return {.bytes = known->second.bytes()};
}

std::span<std::byte> PtFile::new_copy(const std::string& name, std::uint64_t size) {
    const std::uint64_t most = kMaxCopies * zip_.bytes().size();
    if (size > most - copied_) {
        unsupported("contiguous tensors", fmt::format("{:?}, which needs a copy of {} bytes", name, size),
                    "save its contiguous()");
    }
    require_memory(size, name);
    copied_ += size;
    copies_.emplace_back(size);
    return copies_.back().bytes();
}

}  // namespace stoker
